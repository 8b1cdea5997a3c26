# SPDX-License-Identifier: BSD-2-Clause
"""The command sep on damaged and truncated files: each is refused with exit code 1 and a message that
names the place, nothing wrong is ever written, and --recover saves every block that is intact, from
files and from pipes."""
import os
import unittest

from sep_test import (ENTRY, FOOTER, HEADER, INDEX, KIB, RECORD, Layout, SepTest, mixed, noise, words)

BLOCK = 16 * KIB
FAST = ('--codec=zstd:1', '-b16K')


class Damage(SepTest):
    def recover_both(self, packed, code):
        """Recovers PACKED from a file and from a pipe; both exit with CODE."""
        self.put('bad.sep', packed)
        from_file = self.run_sep('-dc', '--recover', 'bad.sep', code=code)
        from_pipe = self.run_sep('-d', '--recover', stdin=packed, code=code)
        return from_file, from_pipe

    def assert_blocks(self, got, data, lost, block=BLOCK):
        """GOT is DATA, with zeros for the blocks LOST."""
        expected = bytearray(data)
        for number in lost:
            size = len(expected[number * block:(number + 1) * block])
            expected[number * block:number * block + size] = bytes(size)
        self.assertEqual(len(got), len(expected))
        for number in range(0, -(-len(data) // block)):
            place = slice(number * block, (number + 1) * block)
            self.assertTrue(got[place] == expected[place], f'block {number}')

    def small(self):
        """Three blocks, all structures, few bytes."""
        data = b'0123456789' * 4000
        return data, self.compress(data, *FAST)

    def test_every_byte_flipped(self):
        data, packed = self.small()
        layout = Layout(packed)
        records = layout.records
        self.assertEqual(len(records), 3)
        for at in range(len(packed)):
            with self.subTest(byte=at):
                bad = bytearray(packed)
                bad[at] ^= 1 << at % 8
                self.put('bad.sep', bad)
                self.run_sep('-t', 'bad.sep', code=1)
                self.assertTrue(self.errors)
                self.assertLess(len(self.run_sep('-d', stdin=bytes(bad), code=1)), len(data) + 1)
                inside = [number for number, record in enumerate(records)
                          if record['at'] + RECORD <= at < record['end']]
                header = [number for number, record in enumerate(records)
                          if record['at'] <= at < record['at'] + RECORD]
                # by the index: only a payload's damage costs its block; not if the codec ignores
                # the bit, as zstd does with a few
                got = self.run_sep('-dc', '--recover', 'bad.sep', code=(1, 2) if inside else 2)
                if self.code == 2:
                    inside = []
                self.assert_blocks(got, data, inside)
                # by searching: a record's header costs it too, except its hash of the payload
                lost = inside + [number for number in header
                                 if at < records[number]['at'] + RECORD - 8]
                got = self.run_sep('-d', '--recover', stdin=bytes(bad), code=1 if lost else 2)
                self.assert_blocks(got, data, lost)

    def test_every_length(self):
        """Cut anywhere: all complete blocks are recovered, and the cut one is named."""
        data, packed = self.small()
        records = Layout(packed).records
        for length in range(len(packed)):
            with self.subTest(length=length):
                bad = packed[:length]
                self.put('bad.sep', bad)
                self.run_sep('-t', 'bad.sep', code=1)
                self.assertRegex(self.errors, 'truncated|not a .sep file')
                complete = [number for number, record in enumerate(records)
                            if record['end'] <= length]
                good = min(len(complete) * BLOCK, len(data))
                part = self.run_sep('-dc', 'bad.sep', code=1)
                self.assertEqual(part, data[:good])
                # the cut block's size is known once its header is there
                cut = [number for number, record in enumerate(records)
                       if record['at'] + RECORD <= length < record['end']]
                known = min((len(complete) + len(cut)) * BLOCK, len(data))
                ended = length >= Layout(packed).streams[0]['index'] + INDEX
                for got in self.recover_both(bad, 2 if ended else 1):
                    if complete:
                        self.assert_blocks(got, data[:known], cut)
                    else:
                        self.assertIn(got, (b'', bytes(known)))

    def test_boundaries_of_streams(self):
        data = [words(40 * KIB), words(20 * KIB, 2)]
        packed = b''.join(self.compress(part, *FAST) for part in data)
        layout = Layout(packed)
        middle = layout.streams[0]['end']
        for boundary in layout.boundaries:
            for length in (boundary - 1, boundary, boundary + 1):
                if 0 <= length < len(packed):
                    sound = length == middle
                    self.put('bad.sep', packed[:length])
                    self.run_sep('-t', 'bad.sep', code=0 if sound else 1)
                    if not sound:
                        self.assertRegex(self.errors, 'truncated|not a .sep file')

    def test_messages_name_the_place(self):
        packed = bytearray(self.compress(words(100 * KIB), *FAST))
        record = Layout(packed).records[3]
        packed[record['at'] + RECORD + 900] ^= 4
        got = self.run_sep('-d', stdin=bytes(packed), code=1,
                           says=f"block 3 (bytes {record['at']} to {record['end'] - 1}, plain bytes "
                                f'{3 * BLOCK} to {4 * BLOCK - 1}): its record does not match')
        self.assertEqual(got, words(100 * KIB)[:3 * BLOCK])
        self.put('bad.sep', packed)
        self.run_sep('-d', '--recover', 'bad.sep', code=1,
                     says=f"block 3, at byte {record['at']}, is lost (plain bytes {3 * BLOCK} to "
                          f'{4 * BLOCK - 1})')
        self.assertIn('recovered 6 of 7 blocks, 86016 of 102400 plain bytes', self.errors)

    def test_failure_leaves_files_alone(self):
        packed = bytearray(self.compress(words(100 * KIB), *FAST))
        packed[-70] ^= 1
        self.put('bad.sep', packed)
        self.run_sep('-d', 'bad.sep', code=1)
        self.assertEqual(os.listdir(self.dir), ['bad.sep'])
        self.run_sep('-d', '--recover', 'bad.sep', code=2)
        self.assertEqual(sorted(os.listdir(self.dir)), ['bad', 'bad.sep'])
        self.assertEqual(self.get('bad'), words(100 * KIB))

    def test_recovery_into_a_file(self):
        """Lost blocks are holes there; also when the last is one."""
        data = mixed(300 * KIB)
        packed = bytearray(self.compress(data, *FAST))
        for number in (2, 3, 18):
            packed[Layout(packed).records[number]['at'] + RECORD + 100] ^= 1
        self.put('file.sep', packed)
        self.run_sep('-d', '--recover', 'file.sep', code=1, says='blocks 2 to 3, at byte')
        self.assert_blocks(self.get('file'), data, (2, 3, 18))
        self.assertEqual(sorted(os.listdir(self.dir)), ['file', 'file.sep'])

    def test_recovery_of_sound_files(self):
        data = mixed(300 * KIB)
        packed = self.compress(data, *FAST)
        for got in self.recover_both(packed, 0):
            self.assertEqual(got, data)
        os.unlink(self.path('bad.sep'))
        self.put('file.sep', packed)
        self.run_sep('-d', '--recover', 'file.sep')
        self.assertEqual(os.listdir(self.dir), ['file'])
        for got in self.recover_both(self.compress(b''), 0):
            self.assertEqual(got, b'')

    def test_nothing_to_recover(self):
        for junk in (b'', b'junk', noise(100 * KIB), bytes(1000)):
            self.assertEqual(self.recover_both(junk, 1), (b'', b''))
        self.put('junk.sep', noise(1000))
        self.run_sep('-d', '--recover', 'junk.sep', code=1, says='no intact block')
        self.assertEqual(sorted(os.listdir(self.dir)), ['bad.sep', 'junk.sep'])

    def test_hole_in_the_middle(self):
        """Several records overwritten, and several cut out."""
        data = mixed(600 * KIB)
        packed = self.compress(data, *FAST)
        records = Layout(packed).records
        first, last = records[5]['at'] + 20, records[12]['at'] + 100
        overwritten = packed[:first] + bytes(last - first) + packed[last:]
        for got in self.recover_both(overwritten, 1):
            self.assert_blocks(got, data, range(5, 13))
        missing = packed[:first] + packed[last:]
        for got in self.recover_both(missing, 1):
            self.assert_blocks(got, data, range(5, 13))
        inserted = packed[:first] + noise(100) + packed[first:]
        for got in self.recover_both(inserted, 1):
            self.assert_blocks(got, data, [5])

    def test_a_few_bytes_missing(self):
        """In a payload: only its block is lost, the next record is found."""
        data = mixed(300 * KIB)
        packed = self.compress(data, *FAST)
        for number, record in enumerate(Layout(packed).records):
            at = record['at'] + RECORD + 10
            bad = packed[:at] + packed[at + 7:]
            for got in self.recover_both(bad, 1):
                self.assert_blocks(got, data, [number])

    def test_lost_ends(self):
        """Header and footer: any 4 KiB at the ends."""
        data = noise(200 * KIB)
        packed = self.compress(data, *FAST)
        for got in self.recover_both(bytes(4096) + packed[4096:], 1):
            self.assert_blocks(got, data, [0])
        for got in self.recover_both(packed[4096:], 1):
            self.assert_blocks(got, data, [0])
        got = self.recover_both(packed[:-4096] + bytes(4096), 1)
        for part in got:
            self.assert_blocks(part, data[:13 * BLOCK], [12])

    def test_index_and_footer_apart(self):
        data = mixed(200 * KIB)
        packed = self.compress(data, *FAST)
        stream = Layout(packed).streams[0]
        for begin, end in ((stream['index'], stream['footer']), (stream['footer'], stream['end']),
                           (stream['index'], stream['index'] + INDEX), (0, HEADER)):
            bad = packed[:begin] + bytes(end - begin) + packed[end:]
            self.run_sep('-d', stdin=bad, code=1)
            for got in self.recover_both(bad, 2 if begin == 0 or end == stream['end'] or
                                         begin == stream['index'] else 1):
                self.assertEqual(got, data)
        self.put('bad.sep', packed[:stream['index'] + 12] + b'\xff' + packed[stream['index'] + 13:])
        self.run_sep('-l', 'bad.sep', code=1, says='index')
        self.run_sep('-dc', '--range=100K:1', 'bad.sep', code=1, says='index')

    def test_concatenation(self):
        """Damage to one stream leaves the others alone; a lost boundary is found again."""
        data = [mixed(100 * KIB, seed) for seed in (1, 50, 100)]
        streams = [self.compress(part, *FAST) for part in data]
        whole = b''.join(data)
        bad = bytearray(b''.join(streams))
        at = len(streams[0])
        bad[at + 5] ^= 1  # header of the second
        for got in self.recover_both(bytes(bad), 2):
            self.assertEqual(got, whole)
        bad[at - 3] ^= 1  # and footer of the first
        for got in self.recover_both(bytes(bad), 2):
            self.assertEqual(got, whole)
        lost = bytes(streams[0][:-100]) + streams[1][60:] + streams[2]
        for got in self.recover_both(lost, 1):
            self.assertTrue(got.endswith(data[2]))
            self.assertTrue(got.startswith(data[0]))

    def test_a_container_within(self):
        """Records of a .sep file that is data are not taken for records of the outer one."""
        inner = self.compress(noise(100 * KIB, 7), *FAST)
        data = inner * 3 + noise(5000)
        for block in ('16K', '1M'):
            packed = self.compress(data, '--codec=raw', f'-b{block}')
            size = BLOCK if block == '16K' else 1024 * KIB
            for number, record in enumerate(Layout(packed).records):
                bad = bytearray(packed)
                bad[record['at'] + 9] ^= 1
                from_file = self.run_sep('-dc', '--recover', self.put('bad.sep', bad), code=2)
                self.assertEqual(from_file, data)
                if block == '16K':
                    from_pipe = self.run_sep('-d', '--recover', stdin=bytes(bad), code=1)
                    self.assert_blocks(from_pipe, data, [number], size)

    def test_duplicated_and_swapped_records(self):
        data = mixed(200 * KIB)
        packed = self.compress(data, *FAST)
        records = Layout(packed).records
        first, second = records[3], records[4]
        cut = [packed[record['at']:record['end']] for record in (first, second)]
        swapped = packed[:first['at']] + cut[1] + cut[0] + packed[second['end']:]
        self.run_sep('-d', stdin=swapped, code=1, says='there is block 4 of the stream')
        doubled = packed[:second['at']] + cut[0] + packed[second['at']:]
        self.run_sep('-d', stdin=doubled, code=1, says='there is block 3 of the stream')
        self.assertEqual(self.run_sep('-d', '--recover', stdin=doubled, code=2), data)
        self.assert_blocks(self.run_sep('-d', '--recover', stdin=swapped, code=1), data, [3])

    def test_record_of_another_stream(self):
        data = [mixed(100 * KIB, seed) for seed in (1, 50)]
        one, other = (self.compress(part, *FAST) for part in data)
        mine, strange = Layout(one).records[2], Layout(other).records[2]
        bad = one[:mine['at']] + other[strange['at']:strange['end']] + one[mine['end']:]
        self.run_sep('-d', stdin=bad, code=1, says='of another stream')
        for got in self.recover_both(bad, 1):
            self.assert_blocks(got, data[0], [2])

    def test_bytes_after_the_end(self):
        data = words(30 * KIB)
        packed = self.compress(data, *FAST)
        for tail in (b'\n', noise(5000), bytes(ENTRY), packed[:HEADER + 10]):
            self.assertEqual(self.run_sep('-d', stdin=packed + tail, code=1), data)
            for got in self.recover_both(packed + tail, 1 if tail[:4] == packed[:4] else 2):
                self.assertEqual(got, data)

    def test_text_mode_transfer(self):
        packed = self.compress(words(100 * KIB), *FAST)
        self.run_sep('-d', stdin=packed.replace(b'\r\n', b'\n'), code=1, says='not a .sep file')

    def test_each_codec(self):
        """A flipped bit in a payload of each codec, at many places."""
        data = words(40 * KIB)
        for codec in ('raw', 'lz4', 'zstd', 'sep:1', 'sep:9'):
            packed = self.compress(data, f'--codec={codec}', '-b16K')
            record = Layout(packed).records[1]
            for at in range(record['at'] + RECORD, record['end'], max(1, record['payload'] // 7)):
                bad = bytearray(packed)
                bad[at] ^= 16
                self.assertEqual(self.run_sep('-d', stdin=bytes(bad), code=1), data[:BLOCK])
                for got in self.recover_both(bytes(bad), 1):
                    self.assert_blocks(got, data, [1])


if __name__ == '__main__':
    unittest.main()
