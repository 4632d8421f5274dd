"""Received, extracted, given: three things, and none of them stands for another."""

import io
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain.attachments import (
    Agreement,
    Attachments,
    Extraction,
    Frames,
    Given,
    Pages,
    State,
    Status,
    agreement,
    sniffed,
)
from custody_toolchain.attachments.kinds import MOST_LOOKED_AT
from custody_toolchain.facts import Form

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
DONE = State(Status.DONE)


def zipped(*names, mimetype=None):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        if mimetype:
            file.writestr("mimetype", mimetype)
        for name in names:
            file.writestr(name, "x")
    return made.getvalue()


def tarred():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        file.addfile(tarfile.TarInfo("a"))
    return made.getvalue()


# Kinds


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"%PDF-1.7\n", "application/pdf"),
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a" + bytes(10), "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
        (b"RIFF\x24\0\0\0AVI LIST", "video/x-msvideo"),
        (b"BM\x36\0\0\0\0\0\0\0\x36\0\0\0", "image/bmp"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0", "video/mp4"),
        (b"\0\0\0\x18ftypqt  \0\0\0\0", "video/quicktime"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "image/heic"),
        (b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01webm", "video/webm"),
        (b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01matroska", "video/x-matroska"),
        (b"ID3\x04\0\0", "audio/mpeg"),
        (b"\xff\xfb\x90\0", "audio/mpeg"),
        (zipped("a.txt"), "application/zip"),
        (zipped("[Content_Types].xml", "word/document.xml"), DOCX),
        (zipped("content.xml", mimetype="application/epub+zip"), "application/epub+zip"),
        (zipped("content.xml", mimetype="<script>"), "application/zip"),
        (tarred(), "application/x-tar"),
        (b"\x1f\x8b\x08\0", "application/gzip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
        (b"\x7fELF\x02\x01", "application/x-executable"),
        (b"MZ\x90\0\x03\0", "application/vnd.microsoft.portable-executable"),
        (b"SQLite format 3\0", "application/vnd.sqlite3"),
        (b"<!DOCTYPE html><p>", "text/html"),
        (b"<?xml version='1.0'?><a/>", "application/xml"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        (b"hello", "text/plain"),
        (b"MZ is two letters", "text/plain"),
        (b"\xef\xbb\xbfwith a mark", "text/plain"),
        ("漢".encode()[:2], "application/octet-stream"),
        ("x漢".encode()[:3], "text/plain"),
        (b"\xe9t\xe9 in Latin-1 is not known", "application/octet-stream"),
        (b"\xff\xfeh\0i\0", "text/plain"),
        (b"", "application/octet-stream"),
        (b"\0\1\2\3", "application/octet-stream"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_first_bytes_show_what_it_is(head, kind):
    assert sniffed(head) == kind


@pytest.mark.parametrize(
    ("claimed", "found", "said"),
    [
        ("image/png", "image/png", "same"),
        ("image/jpg", "image/jpeg", "same"),
        ("Application/PDF; name=x", "application/pdf", "same"),
        ("image/png", "image/jpeg", "conflict"),
        ("application/pdf", "application/vnd.microsoft.portable-executable", "conflict"),
        ("text/plain", "image/png", "conflict"),
        (DOCX, "application/zip", "compatible"),
        ("application/zip", DOCX, "compatible"),
        ("application/msword", "application/x-ole-storage", "compatible"),
        ("application/msword", "application/zip", "conflict"),
        ("text/csv", "text/plain", "compatible"),
        ("application/json", "text/plain", "compatible"),
        ("text/plain", "text/html", "compatible"),
        ("audio/mp4", "video/mp4", "compatible"),
        (None, "image/png", "unknown"),
        ("", "image/png", "unknown"),
        ("application/octet-stream", "image/png", "unknown"),
        ("image/png", "application/octet-stream", "unknown"),
    ],
    ids=str,
)
def test_what_is_claimed_is_held_against_what_is_seen(claimed, found, said):
    assert agreement(claimed, found) is Agreement(said)


@given(st.binary(max_size=64), st.text(max_size=30))
def test_any_bytes_and_any_claim_have_an_answer(head, claimed):
    kind = sniffed(head)
    assert agreement(claimed, kind) in Agreement
    assert agreement(kind, kind) in {Agreement.SAME, Agreement.UNKNOWN}


def test_only_the_beginning_is_looked_at():
    assert sniffed(b"a" * MOST_LOOKED_AT + b"\0") == "text/plain"


# The ledger


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def ledger(**said):
    clock = Clock()
    made = Attachments(clock=clock, **said)
    made.received("scan", size_bytes=9000, head=b"%PDF-1.7", where="upload", claimed_type="application/pdf")
    return made, clock


def extraction(name="text", status=Status.DONE, reason=None, **said):
    return Extraction(name, said.pop("representation", "text"), "pdftotext", State(status, reason), **said)


def test_received_is_not_extracted_and_extracted_is_not_given():
    attachments, _ = ledger()
    seen = attachments.of("scan")
    assert seen is not None
    assert (seen.received.sniffed_type, seen.received.agreement) == ("application/pdf", Agreement.SAME)
    assert (seen.extractions, seen.given) == ((), ())
    attachments.extracted("scan", extraction(pages=Pages(1, 3, 3)))
    assert not attachments.all[0].seen_whole("request-1")
    attachments.given("scan", Given("text", "request-1", Form.FULL))
    assert attachments.all[0].seen_whole("request-1")
    assert not attachments.all[0].seen_whole("request-2")


def test_a_scan_without_text_is_empty_because_it_needs_ocr():
    attachments, _ = ledger()
    attachments.extracted("scan", extraction(status=Status.EMPTY, reason="needs_ocr"))
    seen = attachments.all[0]
    assert (seen.extractions[0].state.status, seen.extractions[0].state.reason) == (Status.EMPTY, "needs_ocr")
    with pytest.raises(ValueError, match="not extracted"):
        attachments.given("scan", Given("text", "request-1", Form.FULL))
    assert not attachments.proved("application/pdf")


def test_a_sampled_video_was_not_watched_whole():
    attachments, _ = ledger()
    attachments.received("film", size_bytes=1, head=b"\0\0\0\x18ftypmp42", where="url")
    frames = Frames((0, 2000, 4000), "every_2s", duration_ms=6000)
    attachments.extracted("film", extraction("frames", representation="frames", frames=frames))
    attachments.given("film", Given("frames", "request-1", Form.FULL))
    film = attachments.of("film")
    assert film is not None
    assert not film.extractions[0].whole
    assert not film.seen_whole("request-1")


@pytest.mark.parametrize(
    ("extracted", "given_pages", "form", "whole"),
    [
        (Pages(1, 3, 3), None, Form.FULL, True),
        (Pages(1, 3, 3), Pages(1, 3, 3), Form.FULL, True),
        (Pages(1, 3, 3), Pages(1, 2, 3), Form.FULL, False),
        (Pages(1, 3, 3), None, Form.REFERENCE, False),
        (Pages(1, 3, 3), None, Form.PARTIAL, False),
        (Pages(2, 3, 3), None, Form.FULL, False),
        (Pages(1, 3), None, Form.FULL, False),
        (None, None, Form.FULL, True),
    ],
    ids=str,
)
def test_whole_is_all_pages_extracted_and_all_of_them_given_in_full(extracted, given_pages, form, whole):
    attachments, _ = ledger()
    attachments.extracted("scan", extraction(pages=extracted))
    attachments.given("scan", Given("text", "r1", form, pages=given_pages))
    assert attachments.all[0].seen_whole("r1") == whole


def test_what_is_extracted_later_was_not_given_before():
    attachments, _ = ledger()
    attachments.extracted("scan", extraction(status=Status.DONE, pages=Pages(1, 2, 9)))
    attachments.given("scan", Given("text", "r1", Form.FULL))
    attachments.extracted("scan", extraction(pages=Pages(1, 9, 9)))
    attachments.given("scan", Given("text", "r2", Form.FULL))
    scan = attachments.all[0]
    assert [each.pages for each in scan.given_of] == [Pages(1, 2, 9), Pages(1, 9, 9)]
    assert not scan.seen_whole("r1")
    assert scan.seen_whole("r2")


def test_pages_that_were_not_extracted_were_not_given():
    attachments, _ = ledger()
    attachments.extracted("scan", extraction(pages=Pages(1, 2, 9)))
    with pytest.raises(ValueError, match="pages"):
        attachments.given("scan", Given("text", "r1", Form.FULL, pages=Pages(2, 3, 9)))
    with pytest.raises(ValueError, match="not extracted"):
        attachments.given("scan", Given("images", "r1", Form.FULL))


def test_a_time_limit_ends_what_is_pending_and_a_late_result_is_none():
    attachments, clock = ledger()
    pending = Extraction("text", "text", "ocr", State(Status.PENDING, limit_s=30))
    attachments.extracted("scan", pending)
    clock.now = 29.9
    assert attachments.all[0].extractions[0].state.status is Status.PENDING
    clock.now = 30
    assert attachments.all[0].extractions[0].state == State(Status.TIMED_OUT, "time_limit", 30)
    with pytest.raises(ValueError, match="time limit"):
        attachments.extracted("scan", extraction())


def test_what_is_in_time_stands():
    attachments, clock = ledger()
    attachments.extracted("scan", Extraction("text", "text", "ocr", State(Status.PENDING, limit_s=30)))
    clock.now = 10
    attachments.extracted("scan", extraction())
    clock.now = 100
    assert attachments.all[0].extractions[0].state == DONE


def test_an_extension_in_a_list_is_no_capability():
    attachments, _ = ledger()
    assert not attachments.proved("application/pdf")
    attachments.extracted("scan", extraction(status=Status.FAILED, reason="encrypted"))
    assert not attachments.proved("application/pdf")
    attachments.extracted("scan", extraction("again"))
    assert attachments.proved("application/pdf")
    assert not attachments.proved("image/png")


def test_a_claimed_picture_that_is_a_program_says_so():
    attachments, _ = ledger()
    received = attachments.received(
        "photo", size_bytes=9, head=b"MZ\x90\0", where="mail", claimed_type="image/png"
    )
    assert received.agreement is Agreement.CONFLICT


def test_everything_is_bounded_and_named_by_ids_and_words():
    attachments, _ = ledger(most=2)
    attachments.received("second", size_bytes=0, head=b"", where="upload")
    for bad in (
        {"attachment": "third", "size_bytes": 1, "head": b"", "where": "upload"},
        {"attachment": "scan", "size_bytes": 1, "head": b"", "where": "upload"},
        {"attachment": "../x", "size_bytes": 1, "head": b"", "where": "upload"},
    ):
        with pytest.raises(ValueError, match="attachment"):
            attachments.received(bad.pop("attachment"), **bad)
    with pytest.raises(ValueError, match="word"):
        Attachments().received("x", size_bytes=1, head=b"", where="/home/me/x.pdf")
    with pytest.raises(ValueError, match="not received"):
        attachments.extracted("unheard-of", extraction())
    for number in range(64):
        attachments.extracted("scan", extraction(f"text-{number}"))
    with pytest.raises(ValueError, match="too many"):
        attachments.extracted("scan", extraction("one-more"))


def test_of_an_attachment_that_is_given_in_every_request_the_newest_are_listed_and_the_others_counted():
    attachments, _ = ledger()
    attachments.extracted("scan", extraction(status=Status.PARTIAL, reason="cut"))
    attachments.given("scan", Given("text", "r0", Form.FULL))
    attachments.extracted("scan", extraction())
    for number in range(1, 100):
        attachments.given("scan", Given("text", f"r{number}", Form.FULL))
    scan = attachments.all[0]
    assert [each.request for each in scan.given] == [f"r{number}" for number in range(36, 100)]
    assert [each.state for each in scan.given_of] == [DONE] * 64
    assert scan.given_dropped == 36
    assert scan.seen_whole("r99")
    assert scan.seen_whole("r36")
    # Of what is not listed any more nothing is claimed.
    assert not scan.seen_whole("r35")


def test_nothing_is_dropped_of_an_attachment_that_was_given_as_often_as_can_be_listed():
    attachments, _ = ledger()
    attachments.extracted("scan", extraction())
    for number in range(64):
        attachments.given("scan", Given("text", f"r{number}", Form.FULL))
    scan = attachments.all[0]
    assert (len(scan.given), scan.given_dropped, scan.seen_whole("r0")) == (64, 0, True)


def test_what_is_not_done_has_a_reason_and_reasons_are_words():
    with pytest.raises(ValueError, match="reason"):
        State(Status.FAILED)
    with pytest.raises(ValueError, match="word"):
        State(Status.FAILED, "The file said: hello")
    with pytest.raises(ValueError, match="word"):
        Frames((0,), "every 2 s")
    with pytest.raises(ValueError, match="between"):
        Frames((-1,), "every_2s")
    with pytest.raises(ValueError, match="between"):
        Frames((0, 2001), "every_2s", duration_ms=2000)
    with pytest.raises(ValueError, match="pages"):
        Pages(0, 1)
    with pytest.raises(ValueError, match="pages"):
        Pages(1, 4, 3)
