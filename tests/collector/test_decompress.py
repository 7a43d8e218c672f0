"""Decompression that stops at the limit, whatever the body claims to be."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.decompress import BadEncoding, decompress_body, read_decompressed_size
from sidelight_model.errors import LimitExceeded, Reason

PACK = {
    "zstd": lambda text: zstandard.ZstdCompressor().compress(text),
    "gzip": gzip.compress,
    "identity": bytes,
}
MB = 1 << 20


@pytest.mark.parametrize("encoding", PACK)
@given(text=st.binary(max_size=20_000))
def test_a_body_comes_back_as_it_was_before_it_was_encoded(encoding: str, text: bytes) -> None:
    assert decompress_body(PACK[encoding](text), encoding, len(text)) == text


@pytest.mark.parametrize("encoding", PACK)
def test_a_body_of_exactly_the_limit_passes_and_one_byte_more_does_not(encoding: str) -> None:
    text = b"main;f 1\n" * 50_000
    assert decompress_body(PACK[encoding](text), encoding, len(text)) == text
    with pytest.raises(LimitExceeded, match=f"larger than {len(text) - 1} bytes") as refused:
        decompress_body(PACK[encoding](text), encoding, len(text) - 1)
    assert refused.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("encoding", PACK)
def test_a_body_says_how_long_it_will_be(encoding: str) -> None:
    text = b"main;f 1\n" * 50_000
    assert read_decompressed_size(PACK[encoding](text), encoding, 10 * MB) == len(text)
    assert read_decompressed_size(PACK[encoding](text), encoding, len(text) - 1) == len(text) - 1


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "br", ""])
@pytest.mark.parametrize("junk", [b"", b"m", b"\0" * 50])
def test_what_says_nothing_of_its_length_is_taken_to_be_as_long_as_it_is(encoding: str, junk: bytes) -> None:
    assert read_decompressed_size(junk, encoding, MB) == len(junk)
    writer = zstandard.ZstdCompressor().compressobj()
    streamed = writer.compress(b"main;f 1\n" * 999) + writer.flush()
    assert read_decompressed_size(streamed, "zstd", MB) == len(streamed)


def test_no_encoding_means_identity_and_names_ignore_case() -> None:
    assert decompress_body(b"text", "", 10) == b"text"
    assert decompress_body(PACK["gzip"](b"text"), " GZip ", 10) == b"text"


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_what_was_encoded_in_several_pieces_is_one_body(encoding: str) -> None:
    pieces = [b"main;f 1\n" * 999, b"", b"main;g 2\n"]
    assert decompress_body(b"".join(map(PACK[encoding], pieces)), encoding, MB) == b"".join(pieces)


def test_a_zstd_stream_that_does_not_tell_its_size_is_read() -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    body = compressor.compress(b"main;f 1\n" * 9999) + compressor.flush()
    assert decompress_body(body, "zstd", MB) == b"main;f 1\n" * 9999


def test_a_bomb_costs_no_more_memory_than_the_limit_and_a_step() -> None:
    zeros = bytes(MB)
    compressor = zstandard.ZstdCompressor(level=19).compressobj()
    zstd = b"".join(compressor.compress(zeros) for _ in range(1024)) + compressor.flush()
    deflate = zlib.compressobj(9, wbits=31)
    gz = b"".join(deflate.compress(zeros) for _ in range(1024)) + deflate.flush()
    for encoding, bomb in (("zstd", zstd), ("gzip", gz)):
        assert len(bomb) < 2 * MB
        tracemalloc.start()
        try:
            with pytest.raises(LimitExceeded):
                decompress_body(bomb, encoding, 8 * MB)
            assert tracemalloc.get_traced_memory()[1] < 16 * MB
        finally:
            tracemalloc.stop()


def test_a_frame_that_asks_for_a_huge_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = compressor.compress(bytes(MB)) + compressor.flush()
    with pytest.raises(BadEncoding):
        decompress_body(body, "zstd", 32 * MB)


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
@pytest.mark.parametrize("cut", [0, 1, 10, -5, -1])
def test_a_body_that_ends_too_early_is_refused_and_not_cut(encoding: str, cut: int) -> None:
    with pytest.raises(BadEncoding):
        decompress_body(PACK[encoding](b"main;f 1\n" * 100)[:cut], encoding, MB)


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
@given(junk=st.binary(min_size=1, max_size=200))
def test_bytes_that_are_not_what_they_are_said_to_be_are_refused(encoding: str, junk: bytes) -> None:
    with pytest.raises(BadEncoding):
        decompress_body(b"junk" + junk, encoding, MB)
    with pytest.raises(BadEncoding):
        decompress_body(PACK[encoding](b"main;f 1\n") + b"junk" + junk, encoding, MB)


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd, gzip", "x" * 500])
def test_an_encoding_that_is_not_known_is_refused_by_name(encoding: str) -> None:
    with pytest.raises(BadEncoding, match="not known") as refused:
        decompress_body(b"", encoding, MB)
    assert "zstd" in refused.value.hint


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_a_body_of_very_many_pieces_takes_time_in_proportion_to_its_length(encoding: str) -> None:
    body = PACK[encoding](b"main;f 1\n") + PACK[encoding](b"") * 200_000
    began = time.process_time()
    assert decompress_body(body, encoding, MB) == b"main;f 1\n"
    assert time.process_time() - began < 10
