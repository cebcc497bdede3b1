"""What is behind an error of redis-py or kombu, which wrap what they are told."""

from collections.abc import Iterator
from ssl import SSLCertVerificationError

from redis.exceptions import AuthenticationError, ResponseError

_MOST_CHARACTERS = 120


def distrusted(error: BaseException) -> str | None:
    """Say why a server's certificate was refused, when that is what is behind an error."""
    found = (each for each in _chain(error) if isinstance(each, SSLCertVerificationError))
    return next((str(each.verify_message) for each in found), None)


def refused_login(error: BaseException) -> AuthenticationError | None:
    """Return the answer of a server that knows no such user or password, when that is what is behind an error."""
    return next((each for each in _chain(error) if isinstance(each, AuthenticationError)), None)


def reason(error: BaseException) -> str:
    """Say why somebody did not answer, in the server's words where it did; those of a socket may repeat the URL."""
    distrust = distrusted(error)
    if distrust is not None:
        return f"{SSLCertVerificationError.__name__}: {distrust}"
    behind = refused_login(error) or error
    said = str(behind).partition("\n")[0][:_MOST_CHARACTERS] if isinstance(behind, ResponseError) else ""
    return f"{type(behind).__name__}: {said}" if said else type(behind).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
