"""edgecore's own metadata in a `.pte` file."""

from __future__ import annotations

from dataclasses import replace

import edgecore.format as fmt
from edgecore.format import PteFile


def add_meta(pte: PteFile, profile: str = "executorch-1.5") -> fmt.Meta:
    delegates = [fmt.DelegateMeta(fmt.blob_digest(blob)) for blob in pte.delegate_blobs]
    meta = fmt.Meta(profile, "edgecore", "0", [fmt.MethodMeta("forward", delegates)])
    fmt.set_meta(pte, meta)
    return meta


def test_metadata_are_read_as_they_were_written(pte: PteFile) -> None:
    assert fmt.get_meta(pte) is None
    meta = add_meta(pte)
    read = fmt.get_meta(fmt.read_pte(fmt.write_pte(pte)))
    assert read == meta and read is not None
    assert read.method("forward") == meta.methods[0] and read.method("other") is None
    fmt.set_meta(pte, replace(meta, profile="edgecore"))
    assert fmt.get_meta(pte) == replace(meta, profile="edgecore")
