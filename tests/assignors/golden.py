"""Keep what Kafka's assignors answered, so that the comparison needs no Java.

`python -m tests.assignors.golden` writes the file anew, from the newest release compared with.
"""

from pathlib import Path
from typing import Any

from groupsdk.assignment import Cluster, Subscription
from tests.assignors.kafka_assignors import RELEASES, Listed, kafka_assignors
from tests.assignors.random_groups import RandomGroup, random_groups
from tests.support.golden import read_golden, write_golden


FILE = Path(__file__).parent / "golden_assignments.json.gz"
NUMBER, SEED = 300, 881

Case = tuple[RandomGroup, Listed]


def read() -> dict[str, list[Case]]:
    """Read the groups and Kafka's answers, by assignor."""
    kept = read_golden(FILE)
    return {
        assignor: [(_group(question), _listed(answer)) for question, answer in cases]
        for assignor, cases in kept.items()
    }


def _group(question: dict[str, Any]) -> RandomGroup:
    topics = question["topics"]
    return RandomGroup(
        Cluster({topic: len(racks) for topic, racks in topics.items()}, topics),
        {
            member["id"]: Subscription(
                tuple(member["topics"]),
                rack_id=member["rack"],
                group_instance_id=member["instance"],
            )
            for member in question["members"]
        },
    )


def _listed(answer: dict[str, list[list[Any]]]) -> Listed:
    return {member: [(topic, number) for topic, number in each] for member, each in answer.items()}


def main() -> None:
    with kafka_assignors(RELEASES[-1]) as kafka:
        kept = {
            assignor: [
                (question := group.question(assignor), kafka.assign(question))
                for group in random_groups(NUMBER, SEED)
            ]
            for assignor in ("range", "roundrobin")
        }
    write_golden(FILE, kept)


if __name__ == "__main__":
    main()
