"""What the worker raises on purpose, under the kernel's tree.

::

    TurnfleetError
    ├── (kernel) PlanError          a plan names what does not exist here, or cannot be bound
    │   ├── UnreadablePlan          a recorded plan has fields or values that this release does not know
    │   └── AlteredPlan             a recorded plan's content is not what its id names
    ├── NewerJournal                a run's journal has an entry that this release does not know
    ├── SettingError                a setting of the process's environment makes no sense: its text says which
    ├── RegistrationError           a registry entry as declared makes no sense: fix the code that registers it
    ├── ArgumentsError              arguments do not fit a tool's schema; its text is what the model reads (TOL-3)
    ├── ResponseError               the model's answer is not what the plan's response schema asks for (STG-5)
    └── ModelError                  a model provider did not give a turn
        ├── ModelUnavailableError   not now: overloaded, rate limited, unreachable; the same call may work later
        └── ModelRefusedError       not like this: unknown model, bad key, request too long; do not repeat it

No message holds a prompt, arguments, an answer or a key.
"""

from turnfleet_kernel.errors import PlanError, TurnfleetError

__all__ = [
    "AlteredPlan",
    "ArgumentsError",
    "ModelError",
    "ModelRefusedError",
    "ModelUnavailableError",
    "NewerJournal",
    "RegistrationError",
    "ResponseError",
    "SettingError",
    "UnreadablePlan",
]


class SettingError(TurnfleetError, ValueError):
    """A setting in the environment of a worker process that cannot be meant."""


class UnreadablePlan(PlanError):
    """A recorded plan that this release cannot read: it has fields or values that it does not know."""


class AlteredPlan(PlanError):
    """A recorded plan whose content is not what its id names (IPL-4): what would run is not what was enqueued."""


class NewerJournal(TurnfleetError, ValueError):
    """A journal with an entry that this release does not know: leaving it out would lose work."""


class RegistrationError(TurnfleetError, ValueError):
    """A registry entry that could never work as declared."""


class ArgumentsError(TurnfleetError, ValueError):
    """Arguments that do not fit a tool's schema (TOL-3); the text names the problems and what the tool takes."""


class ResponseError(TurnfleetError, ValueError):
    """An answer that is not JSON, or does not fit the plan's response schema."""


class ModelError(TurnfleetError):
    """A model provider did not give a turn."""


class ModelUnavailableError(ModelError):
    """The provider cannot serve now; the same call may work later."""


class ModelRefusedError(ModelError):
    """The provider will not serve this call as it is; repeating it changes nothing."""
