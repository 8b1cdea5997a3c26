# SPDX-License-Identifier: BSD-2-Clause
"""Pack files as docs/format.md describes them: finds records, and damages them one bit at a time.

Only for stores that are not mounted, or whose files nobody writes meanwhile.
"""
import collections
import os
import struct

HEADER = 80
PACK_HEADER = 64
MAGIC = b'SePr'
CODECS = {0: 'raw', 1: 'lz4', 2: 'zstd', 3: 'sep'}
SHARED = 2

Record = collections.namedtuple(
    'Record', 'path pack offset codec flags payload plain id ino number')

# Field of a record's header -> (offset, bytes). All 80 bytes.
FIELDS = {
    'magic': (0, 4), 'version': (4, 1), 'codec': (5, 1), 'level': (6, 1), 'zero byte': (7, 1),
    'flags': (8, 2), 'zero half': (10, 2), 'payload bytes': (12, 4), 'plain bytes': (16, 4),
    'zero word': (20, 4), 'block id': (24, 8), 'inode': (32, 8), 'block number': (40, 8),
    'model': (48, 8), 'hash low': (56, 8), 'hash high': (64, 8), 'checksum': (72, 8),
}


def pack_files(store):
    directory = os.path.join(store, 'packs')
    return sorted(os.path.join(directory, name) for name in os.listdir(directory))


def records(store):
    """Every whole record header in the packs, in their order; dead ones that were not punched too."""
    found = []
    for path in pack_files(store):
        with open(path, 'rb') as file:
            data = file.read()
        at = PACK_HEADER
        while at + HEADER <= len(data):
            if data[at:at + 4] != MAGIC:
                at += 8
                continue
            (_, version, codec, _, _, flags, _, payload, plain, _, block, ino,
             number) = struct.unpack_from('<4sBBBBHHIIIQQQ', data, at)
            assert version == 1, (path, at)
            found.append(Record(path, int(os.path.basename(path)[:8], 16), at, codec, flags,
                                payload, plain, block, ino, number))
            at += (HEADER + payload + 7) // 8 * 8
    return found


def record_of(store, ino, number=0):
    """The record of a file's block, in a store where only compaction has moved it: that puts it into
    a later pack, and the header of the old one may have stayed, for only whole pages are punched."""
    found = [record for record in records(store) if (record.ino, record.number) == (ino, number)]
    assert found and len({record.id for record in found}) == 1, (ino, number, found)
    assert len({record.pack for record in found}) == len(found), (ino, number, found)
    return found[-1]


def flip(path, offset, bit=2):
    with open(path, 'r+b') as file:
        file.seek(offset)
        byte = file.read(1)
        assert len(byte) == 1, (path, offset)
        file.seek(offset)
        file.write(bytes([byte[0] ^ (1 << bit)]))


def damage(record, where='payload', bit=2):
    """Flips one bit: of a header field, by its name, or in the middle of the payload."""
    if where == 'payload':
        at = HEADER + record.payload // 2
    else:
        at = FIELDS[where][0] + FIELDS[where][1] - 1
    flip(record.path, record.offset + at, bit)


def bytes_of(record):
    """The record as it lies in its pack."""
    with open(record.path, 'rb') as file:
        file.seek(record.offset)
        return file.read(HEADER + record.payload)
