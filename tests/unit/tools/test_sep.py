# SPDX-License-Identifier: BSD-2-Clause
"""The command sep on sound data: round trips, names and files, flags and exit codes, ranges,
concatenation, --list, signals."""
import json
import os
import pty
import select
import signal
import stat
import subprocess
import time
import unittest

from sep_test import FOOTER, HEADER, INDEX, KIB, SEP, Layout, SepTest, mixed, noise, words

FAST = ('--codec=zstd:1', '-b16K')


class RoundTrip(SepTest):
    def test_sizes(self):
        """Empty, one byte, one less and one more than a block, several blocks."""
        block = 16 * KIB
        for size in (0, 1, 2, 100, block - 1, block, block + 1, 3 * block - 1, 3 * block,
                     3 * block + 1, 10 * block + 7):
            data = words(size)
            for options in (('-b16K', '-1'), FAST):
                packed = self.compress(data, *options)
                self.assertEqual(self.decompress(packed), data)
                layout = Layout(packed)
                self.assertEqual([record['plain'] for record in layout.records],
                                 [min(block, size - at) for at in range(0, size, block)])

    def test_empty_is_80_bytes(self):
        self.assertEqual(len(self.compress(b'')), HEADER + INDEX + FOOTER)

    def test_levels(self):
        data = words(200 * KIB)
        sizes = {level: len(self.compress(data, f'-{level}')) for level in range(1, 10)}
        for level, size in sizes.items():
            self.assertLess(size, len(data) / 2, f'level {level}')
        self.assertEqual(len(self.compress(data)), sizes[5])

    def test_codecs(self):
        data = mixed(300 * KIB)
        for codec, number in (('raw', 0), ('lz4', 1), ('lz4:9', 1), ('zstd:3', 2), ('sep:2', 3)):
            packed = self.compress(data, f'--codec={codec}', '-b32K')
            self.assertEqual(self.decompress(packed), data)
            self.assertEqual({record['codec'] for record in Layout(packed).records}, {0, number})

    def test_incompressible_is_raw(self):
        data = noise(1000 * KIB)
        packed = self.compress(data, '-b1M')
        self.assertEqual({record['codec'] for record in Layout(packed).records}, {0})
        self.assertLess(len(packed), len(data) * 1.0002)

    def test_threads_give_the_same_bytes(self):
        data = mixed(2000 * KIB)
        packed = self.compress(data, *FAST, '-T1')
        for threads in (2, 3, 16, 0):
            self.assertEqual(self.compress(data, *FAST, f'-T{threads}'), packed)
            self.assertEqual(self.decompress(packed, f'-T{threads}'), data)

    def test_largest_blocks(self):
        data = mixed(9000 * KIB)
        packed = self.compress(data, '--codec=lz4', '-b4M', '-T2')
        self.assertEqual(len(Layout(packed).records), 3)
        self.assertEqual(self.decompress(packed), data)

    def test_slow_pipes(self):
        """Bytes that come one by one, and a reader that is slow."""
        data = words(40 * KIB)
        packed = self.compress(data, *FAST)
        with subprocess.Popen([SEP, '-d'], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
            for at in range(0, 1000):
                run.stdin.write(packed[at:at + 1])
                run.stdin.flush()
            run.stdin.write(packed[1000:])
            run.stdin.close()
            got = b''
            while True:
                part = run.stdout.read(777)
                if not part:
                    break
                got += part
        self.assertEqual(run.returncode, 0)
        self.assertEqual(got, data)

    def test_nonblocking_descriptors(self):
        data = words(400 * KIB)
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        with subprocess.Popen([SEP, '-c', *FAST], stdin=subprocess.PIPE, stdout=write) as packer, \
             subprocess.Popen([SEP, '-d'], stdin=read, stdout=subprocess.PIPE) as unpacker:
            os.close(read)
            os.close(write)
            packer.stdin.write(data)
            packer.stdin.close()
            self.assertEqual(unpacker.stdout.read(), data)
        self.assertEqual((packer.returncode, unpacker.returncode), (0, 0))

    def test_concatenation(self):
        parts = [words(50 * KIB), b'', noise(20 * KIB), b'x', words(16 * KIB)]
        options = (('-b16K',), (), ('-b64K',), ('-b1M',), FAST)
        packed = b''.join(self.compress(part, *option) for part, option in zip(parts, options))
        whole = b''.join(parts)
        self.assertEqual(self.decompress(packed), whole)
        self.put('all.sep', packed)
        self.run_sep('-t', 'all.sep')
        for begin, length in ((0, 1), (50 * KIB - 1, 2), (50 * KIB, 20 * KIB), (49 * KIB, 30 * KIB),
                              (70 * KIB, 1), (len(whole) - 1, 1), (16 * KIB, 0)):
            self.assertEqual(self.run_sep('-dc', f'--range={begin}:{length}', 'all.sep'),
                             whole[begin:begin + length])

    def test_from_where_standard_input_is(self):
        """A descriptor that was already read from: positions count from there."""
        data = words(100 * KIB)
        path = self.put('file', b'skip this' + self.compress(data, *FAST))
        for options, expected in ((('-d',), data), (('-dc', '--range=70K:9'), data[70 * KIB:][:9]),
                                  (('-d', '--recover'), data)):
            with open(path, 'rb') as file:
                os.lseek(file.fileno(), 9, os.SEEK_SET)
                self.assertEqual(subprocess.run([SEP, *options], stdin=file, check=True,
                                                stdout=subprocess.PIPE).stdout, expected)


class Files(SepTest):
    def test_replaces_the_file(self):
        data = words(70 * KIB)
        path = self.put('file', data)
        os.chmod(path, 0o640)
        os.utime(path, ns=(1_000_000_000_123_456_789, 1_100_000_000_987_654_321))
        if os.geteuid() == 0:
            os.chown(path, 12345, 23456)
        before = os.stat(path)
        for arguments, there, gone in ((('file',), 'file.sep', 'file'),
                                       (('-d', 'file.sep'), 'file', 'file.sep')):
            self.run_sep(*arguments)
            self.assertFalse(os.path.exists(self.path(gone)))
            after = os.stat(self.path(there))
            for name in ('st_mode', 'st_uid', 'st_gid', 'st_mtime_ns'):
                self.assertEqual(getattr(after, name), getattr(before, name), name)
        self.assertEqual(self.get('file'), data)
        self.assertEqual(os.listdir(self.dir), ['file'])

    def test_keep(self):
        self.put('file', b'data')
        self.run_sep('-k', 'file')
        self.assertEqual(sorted(os.listdir(self.dir)), ['file', 'file.sep'])
        self.run_sep('-dkf', 'file.sep')
        self.assertEqual(sorted(os.listdir(self.dir)), ['file', 'file.sep'])

    def test_stdout_keeps(self):
        self.put('a', b'first')
        self.put('b', b'second')
        packed = self.run_sep('-c', 'a', 'b')
        self.assertEqual(self.decompress(packed), b'firstsecond')
        self.assertEqual(sorted(os.listdir(self.dir)), ['a', 'b'])

    def test_dash_is_standard_input(self):
        self.put('a', b'first')
        self.assertEqual(self.decompress(self.run_sep('-c', 'a', '-', stdin=b'second')),
                         b'firstsecond')

    def test_output(self):
        self.put('file', b'data')
        self.run_sep('-o', 'other', 'file')
        self.run_sep('-d', '--output=back', 'other')
        self.assertEqual(self.get('back'), b'data')
        self.assertEqual(sorted(os.listdir(self.dir)), ['back', 'file', 'other'])
        self.run_sep('-o', 'from-pipe', stdin=b'data')
        self.assertEqual(self.get('from-pipe'), self.get('other'))
        self.run_sep('-f', '-o', '/dev/null', 'file')
        self.assertTrue(stat.S_ISCHR(os.stat('/dev/null').st_mode))

    def test_existing_output(self):
        self.put('file', b'data')
        self.put('file.sep', b'old')
        self.run_sep('file', code=1, says='file.sep: exists')
        self.assertEqual((self.get('file'), self.get('file.sep')), (b'data', b'old'))
        self.run_sep('-f', 'file')
        self.assertEqual(os.listdir(self.dir), ['file.sep'])
        self.assertEqual(self.decompress(self.get('file.sep')), b'data')

    def test_failed_replacement_leaves_the_old_file(self):
        self.put('file', b'old')
        self.put('file.sep', self.compress(words(50 * KIB), *FAST)[:-1])
        self.run_sep('-df', 'file.sep', code=1, says='truncated')
        self.assertEqual(self.get('file'), b'old')
        self.assertEqual(sorted(os.listdir(self.dir)), ['file', 'file.sep'])

    def test_output_is_the_input(self):
        self.put('file', b'data')
        self.run_sep('-f', '-o', 'file', 'file', code=1, says='the input itself')
        self.assertEqual(self.get('file'), b'data')

    def test_suffixes(self):
        self.put('file.sep', b'data')
        self.run_sep('file.sep', code=2, says='suffix')
        self.put('file', self.compress(b'data'))
        self.run_sep('-d', 'file', code=2, says='does not end in .sep')
        self.assertEqual(self.run_sep('-dc', 'file'), b'data')
        self.put('.sep', self.compress(b'data'))
        self.run_sep('-d', '.sep', code=2, says='does not end in .sep')
        self.assertEqual(sorted(os.listdir(self.dir)), ['.sep', 'file', 'file.sep'])

    def test_links_and_special_files(self):
        self.put('file', b'data')
        os.symlink('file', self.path('symbolic'))
        self.run_sep('symbolic', code=2, says='symbolic link')
        os.link(self.path('file'), self.path('hard'))
        self.run_sep('file', code=2, says='hard link')
        os.mkfifo(self.path('fifo'))
        self.run_sep('fifo', code=2, says='not a regular file')
        self.run_sep('.', code=2, says='is a directory')
        self.run_sep('-cf', '.', code=2, says='is a directory')
        self.assertEqual(sorted(os.listdir(self.dir)), ['fifo', 'file', 'hard', 'symbolic'])
        self.assertEqual(self.decompress(self.run_sep('-c', 'symbolic')), b'data')
        self.run_sep('-f', 'symbolic')
        self.assertEqual(self.decompress(self.get('symbolic.sep')), b'data')
        self.assertFalse(os.path.lexists(self.path('symbolic')))
        self.run_sep('-f', 'hard')
        self.assertEqual(sorted(os.listdir(self.dir)), ['fifo', 'file', 'hard.sep', 'symbolic.sep'])
        os.chmod(self.path('file'), 0o4755)
        self.run_sep('file', code=2, says='set-user-id')
        with subprocess.Popen([SEP, '-c', 'fifo'], cwd=self.dir, stdout=subprocess.PIPE) as run:
            with open(self.path('fifo'), 'wb') as fifo:
                fifo.write(b'through')
            self.assertEqual(self.decompress(run.stdout.read()), b'through')
        self.assertEqual(run.returncode, 0)

    def test_one_bad_file_of_three(self):
        self.put('a', b'first')
        self.put('c', b'third')
        self.run_sep('a', 'b', 'c', code=1, says='b: No such file')
        self.assertEqual(sorted(os.listdir(self.dir)), ['a.sep', 'c.sep'])

    @unittest.skipIf(os.geteuid() == 0, 'root may do everything')
    def test_unreadable(self):
        os.chmod(self.put('file', b'data'), 0)
        self.run_sep('file', code=1, says='Permission denied')

    def test_full_disk(self):
        if not os.path.exists('/dev/full'):
            self.skipTest('no /dev/full')
        self.put('file', b'data')
        self.run_sep('-f', '-o', '/dev/full', 'file', code=1, says='No space left')
        with open('/dev/full', 'wb') as full:
            run = subprocess.run([SEP, '-l', self.put('file.sep', self.compress(b'data'))],
                                 stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(run.returncode, 1)


class Options(SepTest):
    def test_usage_errors(self):
        for arguments in (['--unknown'], ['-b15K'], ['-b5M'], ['-b'], ['-T257'], ['-Tx'],
                          ['--codec=xz'], ['--codec=zstd:99'], ['--range=1:2'], ['--recover'],
                          ['-d', '--range=1'], ['-d', '--range=:1'], ['-d', '--range=1:x'],
                          ['-d', '--range=0:1', '--recover'], ['--json'], ['-o', 'x', 'a', 'b'],
                          ['-c', '-o', 'x'], ['--progress=maybe'], ['-d', '--range=9999999T:1']):
            self.run_sep(*arguments, code=1, says='--help')

    def test_help_and_version(self):
        self.assertIn(b'--decompress', self.run_sep('--help'))
        self.assertRegex(self.run_sep('--version'), rb'^sep \d')

    def test_what_is_no_model(self):
        self.put('file', words(1000))
        self.run_sep('-m', 'x.sepm', '-k', 'file', code=1, says='x.sepm: No such file')
        for content in (b'', noise(5000)):
            self.put('x.sepm', content)
            self.run_sep('-m', 'x.sepm', '-k', 'file', code=1, says='x.sepm: not a sound model')
        self.assertFalse(os.path.exists(self.path('file.sep')))

    def test_last_mode_counts(self):
        self.put('file', b'data')
        self.run_sep('-dz', 'file')
        self.run_sep('-t', '-d', 'file.sep')
        self.assertEqual(self.get('file'), b'data')

    def test_test(self):
        self.put('file.sep', self.compress(words(99 * KIB), *FAST))
        self.assertEqual(self.run_sep('-t', 'file.sep'), b'')
        self.assertEqual(os.listdir(self.dir), ['file.sep'])
        self.assertEqual(self.run_sep('--test', stdin=self.get('file.sep')), b'')

    def test_quiet(self):
        self.put('a.sep', b'junk')
        self.run_sep('a.sep', '-q', code=2)
        self.assertEqual(self.errors, '')
        self.run_sep('-dq', 'a.sep', code=1, says='not a .sep file')
        self.run_sep('-dqq', 'a.sep', code=1)
        self.assertEqual(self.errors, '')

    def test_verbose_and_progress(self):
        self.put('file', words(300 * KIB))
        self.run_sep('-kv', 'file', says='300 KiB plain')
        self.run_sep('-kf', '--progress=always', *FAST, 'file', says='100.0%')

    def test_range(self):
        data = mixed(150 * KIB)
        self.put('file.sep', self.compress(data, *FAST))
        for begin, end in ((0, 1), (0, len(data)), (16383, 16385), (16384, 32768), (140000, 150000),
                           (len(data) - 1, len(data)), (77, 77)):
            self.assertEqual(self.run_sep('-dc', f'--range={begin}:{end - begin}', 'file.sep'),
                             data[begin:end])
        self.assertEqual(self.run_sep('-dc', '--range=64K:', 'file.sep'), data[64 * KIB:])
        got = self.run_sep('-dc', '--range=149K:2K', 'file.sep', code=2, says='has 153600 plain')
        self.assertEqual(got, data[149 * KIB:])
        self.assertEqual(self.run_sep('-dc', '--range=1G:1', 'file.sep', code=2), b'')
        self.run_sep('-d', '--range=0:1', stdin=self.get('file.sep'), code=1,
                     says='not a regular file')

    def test_range_reads_only_what_it_needs(self):
        """Damage elsewhere does not matter to it."""
        data = words(100 * KIB)
        packed = bytearray(self.compress(data, *FAST))
        records = Layout(packed).records
        for number in (0, 1, 2, 4, 5):
            packed[records[number]['at'] + 50] ^= 1
        self.put('file.sep', packed)
        self.assertEqual(self.run_sep('-dc', '--range=48K:16K', 'file.sep'),
                         data[48 * KIB:64 * KIB])
        self.run_sep('-dc', '--range=48K:16385', 'file.sep', code=1, says='block 4 ')


class List(SepTest):
    def test_json(self):
        data = words(40 * KIB) + noise(30 * KIB)
        packed = self.compress(data, *FAST)
        self.put('a.sep', packed)
        self.put('b.sep', packed + self.compress(b'', '-b1M'))
        listed = json.loads(self.run_sep('-lv', '--json', 'a.sep', 'b.sep'))
        records = Layout(packed).records
        for name, streams, size in (('a.sep', 1, len(packed)), ('b.sep', 2, len(packed) + 80)):
            file = listed['files'][streams - 1]
            self.assertEqual((file['name'], file['streams'], file['blocks']), (name, streams, 5))
            self.assertEqual((file['plain_bytes'], file['compressed_bytes']), (len(data), size))
            self.assertEqual([(block['position'], block['plain_bytes'], block['payload_bytes'])
                              for block in file['block_list']],
                             [(record['at'], record['plain'], record['payload'])
                              for record in records])
            for codec in file['codecs']:
                of_codec = [record for record in records if record['codec'] ==
                            {'raw': 0, 'zstd': 2}[codec['codec']]]
                self.assertEqual(codec['blocks'], len(of_codec))
                self.assertEqual(codec['plain_bytes'], sum(r['plain'] for r in of_codec))
                self.assertEqual(codec['payload_bytes'], sum(r['payload'] for r in of_codec))
        self.assertEqual(listed['plain_bytes'], 2 * len(data))

    def test_text(self):
        self.put('a.sep', self.compress(words(40 * KIB), *FAST))
        self.put('b.sep', self.compress(b'x'))
        text = self.run_sep('--list', 'a.sep', 'b.sep').decode()
        self.assertRegex(text, r'\n +1 +3 +40\.0 KiB .* a\.sep: zstd:1 3\n')
        self.assertRegex(text, r'\n +1 +1 +1 B +141 B +0\.01  b\.sep: raw 1\n')
        self.assertRegex(text, r'\n +4 +40\.0 KiB .* 2 files\n$')
        self.assertRegex(self.run_sep('-lv', 'a.sep').decode(), r'\n +1 +2 .* zstd:1\n$')

    def test_refusals(self):
        self.run_sep('-l', stdin=self.compress(b'x'), code=1, says='not a regular file')
        self.put('empty', b'')
        self.run_sep('-l', 'empty', code=1, says='empty')
        self.put('junk', noise(1000))
        listed = json.loads(self.run_sep('-l', '--json', 'junk', code=1, says='not a .sep file'))
        self.assertEqual((listed['files'], listed['exit']), ([], 1))


class Terminal(SepTest):
    def setUp(self):
        super().setUp()
        self.master, self.slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        self.addCleanup(os.close, self.slave)

    def test_compressed_data_stays_away(self):
        run = subprocess.run([SEP], input=b'x', stdout=self.slave, stderr=subprocess.PIPE,
                             check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn(b'is a terminal', run.stderr)
        self.assertEqual(select.select([self.master], [], [], 0)[0], [])
        run = subprocess.run([SEP, '-d'], stdin=self.slave, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn(b'is a terminal', run.stderr)

    def test_progress_on_a_terminal(self):
        self.put('file', words(200 * KIB))
        subprocess.run([SEP, '-k', *FAST, 'file'], cwd=self.dir, stderr=self.slave, check=True)
        self.assertIn(b'%', os.read(self.master, 4096))


class Signals(SepTest):
    def test_partial_output_is_removed(self):
        """Stopped while it waits for input, it removes the output and ends by the signal."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen([SEP, '-o', 'out', *FAST], cwd=self.dir,
                                  stdin=subprocess.PIPE) as run:
                run.stdin.write(words(100 * KIB))
                run.stdin.flush()
                for _ in range(500):
                    if os.path.exists(self.path('out')) and os.path.getsize(self.path('out')) > 0:
                        break
                    time.sleep(0.01)
                self.assertGreater(os.path.getsize(self.path('out')), 0)
                run.send_signal(number)
                self.assertEqual(run.wait(timeout=60), -number)
            self.assertEqual(os.listdir(self.dir), [])

    def test_while_the_reader_waits(self):
        """Stopped while it waits for a pipe that nobody empties."""
        data = noise(1000 * KIB)
        self.put('file', data)
        with subprocess.Popen([SEP, '-c', *FAST, 'file'], cwd=self.dir,
                              stdout=subprocess.PIPE) as run:
            time.sleep(0.3)
            run.send_signal(signal.SIGINT)
            self.assertEqual(run.wait(timeout=60), -signal.SIGINT)
        self.assertEqual(self.get('file'), data)

    def test_source_stays(self):
        """Stopped in the middle of a file, whatever it was doing then."""
        data = words(3000 * KIB)
        self.put('file', data)
        for delay in (0.02, 0.1, 0.3):
            with subprocess.Popen([SEP, 'file'], cwd=self.dir) as run:
                time.sleep(delay)
                run.send_signal(signal.SIGINT)
                code = run.wait(timeout=60)
            if code == 0: # it was faster
                self.run_sep('-d', 'file.sep')
            self.assertEqual(os.listdir(self.dir), ['file'])
            self.assertEqual(self.get('file'), data)


if __name__ == '__main__':
    unittest.main()
