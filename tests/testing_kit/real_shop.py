"""The shop as `celery -A testing_kit.real_shop worker` hosts it."""

from testing_kit.shop import app as make_app

app = make_app()
