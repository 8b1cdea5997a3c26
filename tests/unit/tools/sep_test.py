# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of the command sep share: a scratch directory, sample data, runs of the command, and
an independent reader of the container's layout (docs/format-sep.md). SEP is the command to test."""
import os
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

SEP = os.path.abspath(os.environ['SEP'])
KIB = 1024
# A test run in the background or under nohup ignores these, and so would the commands it starts.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)

HEADER, RECORD, INDEX, ENTRY, FOOTER = 24, 44, 8, 16, 48


def words(size, seed=1):
    """Compressible bytes."""
    source = random.Random(seed)
    vocabulary = [bytes(source.randrange(97, 123) for _ in range(source.randrange(2, 9)))
                  for _ in range(200)]
    parts, length = [], 0
    while length < size:
        part = source.choice(vocabulary) + b' '
        parts.append(part)
        length += len(part)
    return b''.join(parts)[:size]


def noise(size, seed=1):
    """Bytes that no codec shortens."""
    return random.Random(seed).randbytes(size)


def mixed(size, seed=1):
    """Compressible and incompressible stretches in turn."""
    out, length = [], 0
    while length < size:
        out.append((words if len(out) % 2 == 0 else noise)(64 * KIB, seed))
        length += len(out[-1])
        seed += 1
    return b''.join(out)[:size]


class Layout:
    """Where the structures of the streams in DATA lie, by walking them; nothing is verified."""

    def __init__(self, data):
        self.streams = []  # of dicts: start, block_size, records, index, footer, end
        at = 0
        while at < len(data):
            assert data[at:at + 4] == b'\xf3SEP', at
            stream = {'start': at, 'block_size': struct.unpack_from('<I', data, at + 12)[0],
                      'records': []}
            at += HEADER
            while data[at:at + 4] == b'\xf3Sb\x1a':
                plain, payload = struct.unpack_from('<II', data, at + 16)
                stream['records'].append({'at': at, 'codec': data[at + 12], 'plain': plain,
                                          'payload': payload, 'end': at + RECORD + payload})
                at += RECORD + payload
            assert data[at:at + 4] == b'\xf3Si\x1a', at
            stream['index'] = at
            at += INDEX + ENTRY * len(stream['records'])
            assert data[at:at + 4] == b'\xf3Sf\x1a', at
            stream['footer'] = at
            at += FOOTER
            stream['end'] = at
            self.streams.append(stream)

    @property
    def records(self):
        return [record for stream in self.streams for record in stream['records']]

    @property
    def boundaries(self):
        """Every byte at which a structure or a payload begins or ends."""
        found = set()
        for stream in self.streams:
            found |= {stream['start'], stream['start'] + HEADER, stream['index'],
                      stream['index'] + INDEX, stream['footer'], stream['end']}
            found |= {stream['index'] + INDEX + ENTRY * i for i in range(len(stream['records']))}
            for record in stream['records']:
                found |= {record['at'], record['at'] + RECORD, record['end']}
        return sorted(found)


class SepTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='sep-test-')
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def put(self, name, data):
        with open(self.path(name), 'wb') as file:
            file.write(data)
        return self.path(name)

    def get(self, name):
        with open(self.path(name), 'rb') as file:
            return file.read()

    def run_sep(self, *arguments, stdin=b'', code=0, says=None):
        """Runs sep, expects an exit code (or one of several) and (part of) a message; returns what it
        printed, and leaves its exit code in self.code."""
        run = subprocess.run([SEP, *arguments], input=stdin, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, cwd=self.dir, timeout=300, check=False)
        self.errors = run.stderr.decode()
        self.code = run.returncode
        self.assertIn(self.code, code if isinstance(code, tuple) else (code,),
                      f'{arguments}: {self.errors}')
        if says is not None:
            self.assertIn(says, self.errors)
        elif code == 0 and '-v' not in arguments and '--progress=always' not in arguments:
            self.assertEqual(self.errors, '')
        return run.stdout

    def compress(self, data, *arguments):
        return self.run_sep('-c', *arguments, stdin=data)

    def decompress(self, data, *arguments):
        return self.run_sep('-dc', *arguments, stdin=data)
