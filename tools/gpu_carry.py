#!/usr/bin/env python3
"""Brings large files to a machine that takes little at a time: cut here, joined there.

    tools/gpu_carry.py split FILE ... [--to gpu-carry] [--mib 53]
    tools/gpu_carry.py join --to STORE [--from gpu-carry]

split makes a folder a piece, gpu-carry/001 and so on, and says how many. Carry one after the other, and after each call
join there: it takes in what came, and says of each file how much is there, or that it is whole; a whole file appears at
once and with the right sha256. Pieces may come in any order, twice, and several at a time. join fails when a piece is
damaged; files that are not whole yet are no failure. Standard library only.
"""
import argparse
import hashlib
import json
import shutil
import sys
from pathlib import Path

BLOCK = 1 << 22


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def split(options):
    shutil.rmtree(options.to, ignore_errors=True)
    room, number, piece_bytes = options.to, 0, options.mib << 20
    for path in options.files:
        size, digest = path.stat().st_size, digest_of(path)
        count = max(1, -(-size // piece_bytes))
        first = number + 1
        with open(path, "rb") as file:
            for index in range(count):
                number += 1
                folder = room / f"{number:03}"
                folder.mkdir(parents=True)
                data = file.read(piece_bytes)
                (folder / "piece").write_bytes(data)
                about = {"file": path.name, "bytes": size, "sha256": digest, "index": index, "count": count,
                         "piece_sha256": hashlib.sha256(data).hexdigest()}
                (folder / "piece.json").write_text(json.dumps(about) + "\n")
        print(f"{path.name}: {size} bytes, {room}/{first:03} to {number:03}")
    print(f"{number} calls of at most {options.mib} MiB")
    return 0


def take_in(folder, store):
    """One piece into the store's .pieces."""
    about = json.loads((folder / "piece.json").read_text())
    name = Path(about["file"]).name
    if digest_of(folder / "piece") != about["piece_sha256"]:
        raise ValueError(f"{folder}: the piece of {name} is damaged")
    place = store / ".pieces" / name
    place.mkdir(parents=True, exist_ok=True)
    shutil.move(folder / "piece", place / f"{about['index']:03}")
    (place / "about.json").write_text(json.dumps(about))
    shutil.rmtree(folder)


def join_one(place, store):
    """Put a file together when all of its pieces are there."""
    about = json.loads((place / "about.json").read_text())
    pieces = [place / f"{i:03}" for i in range(about["count"])]
    there = sum(piece.is_file() for piece in pieces)
    if there < len(pieces):
        print(f"{place.name}: {there} of {len(pieces)} pieces")
        return
    whole = place / "whole"
    with open(whole, "wb") as out:
        for piece in pieces:
            with open(piece, "rb") as file:
                shutil.copyfileobj(file, out, BLOCK)
    if whole.stat().st_size != about["bytes"] or digest_of(whole) != about["sha256"]:
        raise ValueError(f"{place.name}: the pieces are not those of one file")
    whole.replace(store / place.name)
    shutil.rmtree(place)


def join(options):
    folders = sorted(path.parent for path in options.source.glob("*/piece.json")) if options.source.is_dir() else []
    options.to.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        take_in(folder, options.to)
    for about in sorted(options.to.glob(".pieces/*/about.json")):
        join_one(about.parent, options.to)
    for path in sorted(path for path in options.to.iterdir() if path.is_file()):
        print(f"{path.name}: whole, {path.stat().st_size} bytes")
    return 0


def main():
    parser = argparse.ArgumentParser(description="Carry large files in pieces.")
    commands = parser.add_subparsers(dest="command", required=True)
    cut = commands.add_parser("split")
    cut.add_argument("files", nargs="+", type=Path)
    cut.add_argument("--to", type=Path, default=Path("gpu-carry"))
    cut.add_argument("--mib", type=int, default=53, help="of a piece; a call takes 64 MiB with the working tree")
    cut.set_defaults(run=split)
    put = commands.add_parser("join")
    put.add_argument("--from", dest="source", type=Path, default=Path("gpu-carry"))
    put.add_argument("--to", type=Path, required=True, help="the folder where whole files appear")
    put.set_defaults(run=join)
    options = parser.parse_args()
    try:
        return options.run(options)
    except (OSError, ValueError, KeyError) as error:
        print(f"gpu_carry: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
