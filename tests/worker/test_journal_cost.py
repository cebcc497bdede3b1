"""A journal costs little more than the transcript that it leads to, and grows with it (DESIGN 2)."""

from benchmarks.journal_bytes import measure
from worker.conftest import Shop


async def test_a_journal_grows_with_the_transcript_and_not_with_its_square(shop: Shop) -> None:
    """200 rounds of 500-byte turns and 2 KB results: at most 1.3 times the transcript, and 4.2 times 50 rounds."""
    few = await measure(shop.executor, shop.keys.fleet, 50)
    many = await measure(shop.executor, shop.keys.fleet, 200)
    assert many.ratio <= 1.3
    assert many.journal <= 4.2 * few.journal
