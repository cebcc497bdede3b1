"""The example's producer: enqueues one run and prints its events until it ends or waits for a person.

Exit code 0 when it completed or waits, 1 when it ended otherwise. REFUND_AMOUNT says how much is asked for.
"""

import os
import sys

from turnfleet import Fleet, PlanSpec, SigningKeys

PLAN = PlanSpec(name="support", instructions="Help customers, briefly.", model="support", tools=("refund",))


def main() -> int:
    """Enqueue, listen, and say what to do next."""
    amount = os.environ.get("REFUND_AMOUNT", "20")
    url, name = os.environ["TURNFLEET_REDIS_URL"], os.environ.get("TURNFLEET_NAME", "default")
    with Fleet(url, name=name, signing=SigningKeys.from_environment()) as fleet:
        run = fleet.enqueue(PLAN, f"Please refund order 1001: {amount} euros.")
        print(f"run {run.run_id}")
        for event in run.events(until="pause", timeout=120):
            print(f"{event.index:>3} {event.kind}", event.text if event.kind == "text_delta" else "")
        status = run.status()
        print(status.state)
        for waiting in run.interrupts():
            print(f"{waiting.tool} {dict(waiting.arguments or {})} waits for {' or '.join(waiting.roles)}:")
            print(f"  turnfleet resume {run.run_id} --approve {waiting.id} --by alice --role finance")
    return 0 if status.state in {"completed", "paused"} else 1


if __name__ == "__main__":
    sys.exit(main())
