"""Pages and messages are in plain words: no phrase that was translated word by word, few long sentences."""

from tests.tools.prose import PAGES, find_banned_in_messages, find_banned_in_pages, measure_page

MAX_LONG_SHARE = 0.05
"""Sentences of more than 30 words, of all sentences of all pages."""


def test_no_message_has_a_banned_phrase():
    assert find_banned_in_messages() == []


def test_no_page_has_a_banned_phrase():
    assert find_banned_in_pages() == []


def test_comparisons_are_explained_in_a_page_that_a_developer_finishes():
    [page] = [page for page in PAGES if page.name == "comparison.md"]
    assert len(page.read_text(encoding="utf-8").split()) <= 2500


def test_few_sentences_are_long():
    pages = [measure_page(page) for page in PAGES]
    assert sum(page.long_sentences for page in pages) < MAX_LONG_SHARE * sum(page.sentences for page in pages)
