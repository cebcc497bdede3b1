"""A Celery app that a fleet's broker takes for one of its workers, and that hosts nothing."""

import os

from celery import Celery

from turnfleet.wire.broker import celery_settings

app = Celery(set_as_current=False)
app.conf.update(celery_settings("default", os.environ["TURNFLEET_REDIS_URL"]))
