# SPDX-License-Identifier: BSD-2-Clause
"""Full disks and damaged records: the right error to the right caller, and nothing else is lost."""
import errno
import json
import os
import random

import packs
import sepfs_test
from sepfs_test import BLOCK, data_of, run, tool, wait_for


def pairs(lost):
    """(name, record) of a dictionary name -> record."""
    return list(lost.items())


class FullDisk(sepfs_test.MountTest):
    def setUp(self):
        super().setUp()
        self.need(os.geteuid() == 0, 'needs root to mount a small host file system')
        self.host = os.path.join(self.dir, 'host')
        self.image = os.path.join(self.dir, 'image')
        os.mkdir(self.host)

    def tearDown(self):
        for mount in reversed(self.mounts):
            mount.cleanup()
        self.mounts = []
        if sepfs_test.mounted(self.host):
            run('umount', '-l', self.host)
        super().tearDown()

    def host_of(self, kind):
        if kind == 'tmpfs':
            run('mount', '-t', 'tmpfs', '-o', 'size=96M', 'tmpfs', self.host)
        else:
            with open(self.image, 'wb') as file:
                file.truncate(96 << 20)
            run('mkfs.ext4', '-q', '-m', '0', self.image)
            run('mount', '-o', 'loop', self.image, self.host)
        self.store = os.path.join(self.host, 'store')

    def fill(self, kind):
        self.host_of(kind)
        self.mount()
        kept = data_of(1, 2 << 20)
        self.write('kept', kept)
        acknowledged = []
        with open(self.path('big'), 'wb', buffering=0) as file:
            with self.assertRaises(OSError) as caught:
                while len(acknowledged) < 200:
                    chunk = os.urandom(1 << 20)
                    written = file.write(chunk)
                    acknowledged.append(chunk[:written])
                    self.assertLess(len(acknowledged), 200, 'no ENOSPC on a host of 96 MiB')
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
            self.assertGreater(len(acknowledged), 30)
            os.fsync(file.fileno())
        self.assertEqual(self.read('big'), b''.join(acknowledged))
        self.assertEqual(self.read('kept'), kept)
        self.remount()
        self.assertEqual(self.read('big'), b''.join(acknowledged))
        os.unlink(self.path('big'))
        run(tool('sepfs-compact'), self.mp, '--gc', '--wait')
        again = os.urandom(20 << 20)
        self.write('again', again)
        self.remount()
        self.assertEqual(self.read('again'), again)
        self.assertEqual(self.read('kept'), kept)
        self.unmount()
        self.fsck()

    def test_tmpfs(self):
        self.fill('tmpfs')

    def test_ext4(self):
        self.fill('ext4')

    def test_full_of_small_files(self):
        self.host_of('tmpfs')
        self.mount()
        names = []
        with self.assertRaises(OSError) as caught:
            for number in range(200000):
                with open(self.path(f'f{number}'), 'wb', buffering=0) as file:
                    file.write(os.urandom(3000))
                names.append(number)
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        self.assertGreater(len(names), 3000)
        os.sync()
        for number in names:
            self.assertEqual(os.path.getsize(self.path(f'f{number}')), 3000)
        for number in names:
            os.unlink(self.path(f'f{number}'))
        self.remount()
        self.assertEqual([name for name in os.listdir(self.mp) if name != f'f{len(names)}'], [])
        self.write('again', os.urandom(10 << 20))
        self.unmount()
        self.fsck()


class Damage(sepfs_test.MountTest):
    """Bits flipped in each kind of bytes of a store: what reads, fsck, scrub and stats say of it."""

    def make(self, contents, options=''):
        """A store that holds these files, each written and synced alone; not mounted afterwards.
        Returns name -> inode number."""
        self.mount(options)
        inodes = {}
        for name, data in contents.items():
            with open(self.path(name), 'wb') as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            inodes[name] = os.stat(self.path(name)).st_ino
        self.unmount()
        return inodes

    def write_through(self, name, data):
        """Written and stored: a close alone does not wait for the workers."""
        with open(self.path(name), 'wb') as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def problems(self, *arguments, expect=4):
        done = json.loads(self.fsck('-n', '--json', *(arguments or ['--scrub']), expect=expect))
        return done['problems']

    def assert_lost(self, lost, problems):
        """fsck names exactly the blocks of LOST (name -> record or records), by path and place."""
        expected = sorted((name, record.id) for name, record in pairs(lost))
        found = []
        for problem in problems:
            self.assertEqual(problem['state'], 'lost', problem)
            name, rest = problem['text'].split(': bytes ', 1)
            found.append((name.lstrip('/'), problem['block']))
            record = next(r for n, r in pairs(lost) if r.id == problem['block'])
            self.assertEqual(problem['pack'], record.pack, problem)
            self.assertIn(f'(pack {record.pack}, offset {record.offset})', rest)
        self.assertEqual(sorted(found), expected)

    def assert_read_fails(self, name, record, offset=0):
        """EIO, and the log names path, block, pack and offset. It lets 20 lines through in a second:
        the read is repeated until its line is not among those left out."""
        line = f'/{name} (inode {os.stat(self.path(name)).st_ino}): block {record.id} in pack ' \
               f'{record.pack} at offset {record.offset}: '

        def said():
            with open(self.path(name), 'rb', buffering=0) as file:
                self.assert_errno(errno.EIO, os.pread, file.fileno(), 4096, offset)
            return line in self.m.read_log()
        wait_for(said, f'a line in the log: {line}')

    def stats(self):
        done = run(tool('sepfs-stats'), '--json', self.mp if self.mounts else self.store)
        return json.loads(done.stdout)['results'][0]

    def scrub(self, expect):
        done = run(tool('sepfs-scrub'), self.mp, '--wait', '--json', check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_every_field_of_a_record(self):
        places = list(packs.FIELDS) + ['payload']
        contents = {place.replace(' ', '-'): data_of(number, BLOCK)
                    for number, place in enumerate(places)}
        contents['good'] = data_of(99, 3 * BLOCK)
        inodes = self.make(contents)
        damaged = {}
        for place in places:
            name = place.replace(' ', '-')
            damaged[name] = packs.record_of(self.store, inodes[name])
        for place in places:
            packs.damage(damaged[place.replace(' ', '-')], place)
        problems = self.problems()
        self.assert_lost(damaged, problems)
        kinds = {problem['text'].split(':')[0].lstrip('/'): problem['kind'] for problem in problems}
        in_header = {'magic', 'version', 'zero-byte', 'zero-half', 'zero-word', 'payload-bytes',
                     'plain-bytes'}
        for name, kind in kinds.items():
            self.assertEqual(kind, 'record-header' if name in in_header else 'record-checksum', name)
        self.mount(foreground=True)
        for name, record in damaged.items():
            self.assert_read_fails(name, record)
        self.assertEqual(self.read('good'), contents['good'])
        seen = self.scrub(expect=4)
        self.assertEqual(seen['last_damaged_blocks'], len(places))
        self.assertEqual(seen['last_blocks'], len(places) + 3)
        stats = self.stats()
        self.assertEqual(stats['scrub']['last_damaged_blocks'], len(places))
        self.assertGreaterEqual(stats['daemon']['read_errors'], len(places))
        # Each is healed by writing its block again, whole.
        for name in damaged:
            self.write_through(name, contents[name])
        self.assertEqual(self.scrub(expect=0)['last_damaged_blocks'], 0)
        self.remount()
        for name, data in contents.items():
            self.assertEqual(self.read(name), data, name)
        self.unmount()
        self.fsck('-n', '--deep')

    def test_smaller_sizes_in_a_header(self):
        """Sizes that are smaller than the right ones are possible, and of another block."""
        contents = {name: data_of(seed, BLOCK) for seed, name in enumerate(('plain', 'payload'))}
        inodes = self.make(contents)
        found = {name: packs.record_of(self.store, ino) for name, ino in inodes.items()}
        at, _ = packs.FIELDS['plain bytes']
        packs.flip(found['plain'].path, found['plain'].offset + at + 2, bit=1)  # 128 KiB of 2^17
        packs.flip(found['plain'].path, found['plain'].offset + at, bit=0)
        at, _ = packs.FIELDS['payload bytes']
        packs.flip(found['payload'].path, found['payload'].offset + at, bit=0)
        problems = self.problems()
        self.assert_lost(found, problems)
        self.assertEqual({problem['text'][1:8].split(':')[0]: problem['kind'] for problem in problems},
                         {'plain': 'record-checksum', 'payload': 'record-mismatch'})
        self.mount(foreground=True)
        for name, record in found.items():
            self.assert_read_fails(name, record)

    def test_harmless_bytes(self):
        """Zeros behind a payload, and bytes behind the last record, are nobody's."""
        contents = {f'f{number}': data_of(number, BLOCK + 3000 * number) for number in range(6)}
        self.make(contents)
        padded = [record for record in packs.records(self.store) if record.payload % 8 != 0]
        self.assertGreater(len(padded), 0)
        for record in padded:
            packs.flip(record.path, record.offset + packs.HEADER + record.payload)
        with open(packs.pack_files(self.store)[-1], 'ab') as file:
            file.write(os.urandom(999))
        self.fsck('-n', '--deep')
        self.mount()
        for name, data in contents.items():
            self.assertEqual(self.read(name), data)
        self.scrub(expect=0)
        self.unmount()
        self.fsck('-n', '--deep')

    def test_header_of_a_pack(self):
        contents = {'f': data_of(1, 2 * BLOCK)}
        self.make(contents)
        path = packs.pack_files(self.store)[0]
        for at in (0, 8, 9, 10, 12, 16, 31, 32, 56, 63):
            packs.flip(path, at)
            problems = self.problems()
            self.assertEqual([problem['kind'] for problem in problems], ['pack-header'], at)
            self.assertTrue(problems[0]['derivable'])
            self.mount(foreground=True)
            self.assertEqual(self.read('f'), contents['f'])
            self.assertEqual(self.scrub(expect=4)['last_damaged_packs'], 1)
            self.assertIn('scrub: pack 1: the header is damaged', self.m.read_log())
            self.unmount()
            self.fsck('-p', expect=1)
            self.fsck('-n', '--scrub')

    def every_codec(self):
        """Files in each form: name -> contents, and the records that hold them."""
        contents = {'raw': random.Random(1).randbytes(2 * BLOCK), 'lz4': data_of(2, 2 * BLOCK),
                    'zstd': data_of(3, 2 * BLOCK), 'sep': data_of(4, 2 * BLOCK)}
        contents.update({f'd/{number}': data_of(10 + number, 5000) for number in range(40)})
        self.mount()
        os.mkdir(self.path('d'))
        self.write('lz4', b'')
        os.setxattr(self.path('lz4'), 'user.sepfs.policy', b'hot=lz4')
        for name, data in contents.items():
            self.write(name, data)
        for name in ('sep', 'd'):
            run(tool('sepfs-compact'), self.path(name), '--all', '--level=1', '--wait')
        inodes = {name: os.stat(self.path(name)).st_ino for name in contents}
        self.unmount()
        found = {name: packs.record_of(self.store, inodes[name], 1)
                 for name in ('raw', 'lz4', 'zstd', 'sep')}
        shared = [record for record in packs.records(self.store) if record.flags & packs.SHARED]
        for name, record in found.items():
            self.assertEqual(packs.CODECS[record.codec], name)
        self.assertGreaterEqual(len(shared), 2, '200,000 bytes of small files')
        self.assertEqual({record.codec for record in shared}, {3})
        return contents, found, shared

    def test_every_codec(self):
        contents, found, shared = self.every_codec()
        for record in found.values():
            packs.damage(record)
        packs.damage(shared[0])
        problems = self.problems()
        small = {problem['text'].split(': bytes ')[0].lstrip('/') for problem in problems
                 if problem['block'] == shared[0].id}
        self.assertTrue(0 < len(small) < 40, 'one of several shared blocks')
        self.assert_lost({**found, **{name: shared[0] for name in small}}, problems)
        self.mount(foreground=True)
        for name, record in found.items():
            self.assert_read_fails(name, record, BLOCK)
            with open(self.path(name), 'rb', buffering=0) as file:
                self.assertEqual(os.pread(file.fileno(), BLOCK, 0), contents[name][:BLOCK])
        for name in contents:
            if name in small:
                self.assert_errno(errno.EIO, self.read, name)
            elif name not in found:
                self.assertEqual(self.read(name), contents[name], name)
        self.assert_read_fails(min(small), shared[0])
        seen = self.scrub(expect=4)
        self.assertEqual(seen['last_damaged_blocks'], 5)

        # Passes leave them where they are, say so once, and do not try again.
        before = {record: packs.bytes_of(record) for record in [*found.values(), shared[0]]}
        done = run(tool('sepfs-compact'), self.mp, '--all', '--codec=zstd:19', '--gc', '--wait',
                   '--json', check=False)
        self.assertEqual(done.returncode, 1)
        # the fifth is incompressible: no pass looks at it
        self.assertEqual(json.loads(done.stdout)['failed'], 4, done.stdout)
        done = run(tool('sepfs-compact'), self.mp, '--all', '--codec=zstd:19', '--gc', '--wait', '--json')
        again = json.loads(done.stdout)
        self.assertEqual((again['failed'], again['blocks_done']), (0, 0))
        stats = self.stats()
        self.assertEqual(stats['failed_blocks'], 4)
        self.assertEqual({failure['block'] for failure in stats['failures']},
                         {record.id for record in before if record != found['raw']})
        for failure in stats['failures']:
            self.assertIn('damaged', failure['reason'])
        for record, data in before.items():
            self.assertEqual(packs.bytes_of(record), data)
        self.unmount()
        self.assert_lost({**found, **{name: shared[0] for name in small}}, self.problems('--deep'))

        # What is written again is well, what is deleted is gone.
        self.mount()
        for name in found:
            with open(self.path(name), 'r+b') as file:
                file.seek(BLOCK)
                file.write(contents[name][BLOCK:])
        for name in small:
            os.unlink(self.path(name))
        self.remount()
        for name in found:
            self.assertEqual(self.read(name), contents[name])
        self.unmount()
        self.fsck('-n', '--deep')
        self.assertEqual(self.stats()['failed_blocks'], 0)

    def test_same_bytes_heal(self):
        """Writing the bytes of a damaged block, in any file, gives it back to all that share it."""
        contents = {'one': data_of(1, 2 * BLOCK), 'other': data_of(2, BLOCK)}
        inodes = self.make(contents)
        record = packs.record_of(self.store, inodes['one'])
        packs.damage(record)
        self.mount(foreground=True)
        # A copy by reference shares the damage, as it shares the block.
        with open(self.path('one'), 'rb') as source, open(self.path('copy'), 'wb') as target:
            self.assertEqual(os.copy_file_range(source.fileno(), target.fileno(), 2 * BLOCK),
                             2 * BLOCK)
        self.assert_read_fails('one', record)
        self.assert_read_fails('copy', record)
        # A copy that is none by reference has to read, and fails.
        with open(self.path('one'), 'rb') as source, open(self.path('part'), 'wb') as target:
            self.assert_errno(errno.EIO, os.copy_file_range, source.fileno(), target.fileno(),
                              1000, offset_src=10)
        self.assertEqual(os.path.getsize(self.path('part')), 0)
        self.write_through('elsewhere', contents['other'] + contents['one'][:BLOCK])
        for name in ('one', 'copy'):
            self.assertEqual(self.read(name), contents['one'], name)
        stats = self.stats()
        self.assertEqual(stats['daemon']['damaged_blocks_healed'], 1)
        self.assertEqual(stats['blocks'], 3)
        self.assertIn(f'block {record.id} in pack {record.pack} at offset {record.offset} was '
                      'damaged: stored again', self.m.read_log())
        self.remount()
        self.assertEqual(self.read('elsewhere'), contents['other'] + contents['one'][:BLOCK])
        for name in ('one', 'copy'):
            self.assertEqual(self.read(name), contents['one'], name)
        self.unmount()
        self.fsck('-n', '--deep')

    def test_a_pack_that_is_gone_heals(self):
        contents = {'one': data_of(1, 2 * BLOCK), 'other': data_of(2, BLOCK)}
        self.make(contents)
        for path in packs.pack_files(self.store):
            os.unlink(path)
        self.mount()
        self.write_through('again', contents['one'])
        self.assertEqual(self.read('one'), contents['one'])
        self.assert_errno(errno.EIO, self.read, 'other')
        self.remount()
        self.assertEqual(self.read('one'), contents['one'])
        self.assertEqual(self.read('again'), contents['one'])
        os.unlink(self.path('other'))
        self.remount()
        self.unmount()
        self.fsck('-n', '--deep')

    def test_changes_to_a_damaged_file(self):
        names = ['part', 'append', 'whole', 'cut', 'shorten', 'grow', 'hole', 'unlink', 'rename']
        contents = {name: data_of(seed, 2 * BLOCK + 5000) for seed, name in enumerate(names)}
        inodes = self.make(contents)
        last = ('append', 'grow')  # the tail is damaged, of the others the second block
        found = {name: packs.record_of(self.store, ino, 2 if name in last else 1)
                 for name, ino in inodes.items()}
        for record in found.values():
            packs.damage(record)
        self.mount()

        def change(name, offset, data):
            with open(self.path(name), 'r+b', buffering=0) as file:
                os.pwrite(file.fileno(), data, offset)
        # A part of a block needs the rest of it.
        self.assert_errno(errno.EIO, change, 'part', BLOCK + 10, b'x' * 100)
        self.assert_errno(errno.EIO, change, 'append', 2 * BLOCK + 5000, b'x' * 100)
        for name in ('part', 'append'):
            self.assertEqual(os.path.getsize(self.path(name)), 2 * BLOCK + 5000)
        # What names another part of it, covers it, or takes it away, does not.
        os.truncate(self.path('shorten'), BLOCK + 1000)
        os.truncate(self.path('grow'), 4 * BLOCK)
        change('whole', BLOCK, contents['whole'][BLOCK:2 * BLOCK])
        os.truncate(self.path('cut'), BLOCK)
        run('fallocate', '-p', '-o', str(BLOCK), '-l', str(BLOCK), self.path('hole'))
        os.unlink(self.path('unlink'))
        os.rename(self.path('rename'), self.path('renamed'))
        self.remount()
        self.assertEqual(self.read('whole'), contents['whole'])
        self.assertEqual(self.read('cut'), contents['cut'][:BLOCK])
        self.assertEqual(self.read('hole'), contents['hole'][:BLOCK] + bytes(BLOCK) +
                         contents['hole'][2 * BLOCK:])
        with open(self.path('renamed'), 'rb', buffering=0) as file:
            self.assert_errno(errno.EIO, os.pread, file.fileno(), 10, BLOCK)
            self.assertEqual(os.pread(file.fileno(), BLOCK, 0), contents['rename'][:BLOCK])
            self.assertEqual(os.pread(file.fileno(), BLOCK, 2 * BLOCK),
                             contents['rename'][2 * BLOCK:])
        with open(self.path('grow'), 'rb', buffering=0) as file:
            self.assert_errno(errno.EIO, os.pread, file.fileno(), 10, 2 * BLOCK)
            self.assertEqual(os.pread(file.fileno(), 2 * BLOCK, 3 * BLOCK), bytes(BLOCK))
        with open(self.path('shorten'), 'rb', buffering=0) as file:
            self.assert_errno(errno.EIO, os.pread, file.fileno(), 10, BLOCK)
            self.assertEqual(os.pread(file.fileno(), BLOCK, 0), contents['shorten'][:BLOCK])
        self.assertEqual(os.path.getsize(self.path('shorten')), BLOCK + 1000)
        self.unmount()
        left = {name: found[name] for name in ('part', 'append', 'shorten', 'grow')}
        self.assert_lost({**left, 'renamed': found['rename']}, self.problems())

    def test_garbage_collection_leaves_it(self):
        contents = {f'f{number}': data_of(number, BLOCK) for number in range(20)}
        inodes = self.make(contents)
        record = packs.record_of(self.store, inodes['f7'])
        packs.damage(record)
        before = packs.bytes_of(record)
        self.mount(foreground=True)
        for number in range(20):
            if number not in (3, 7):
                os.unlink(self.path(f'f{number}'))
        wait_for(lambda: self.stats()['blocks'] == 2, 'the blocks of unlinked files to go')
        done = run(tool('sepfs-compact'), self.mp, '--gc', '--wait', check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read('f3'), contents['f3'])
        self.assert_read_fails('f7', record)
        self.assertIn('left where it is', self.m.read_log())
        self.unmount()
        self.assertEqual(packs.bytes_of(record), before)
        self.assert_lost({'f7': record}, self.problems())
        # Without it its pack goes.
        self.mount()
        os.unlink(self.path('f7'))
        self.remount()
        self.unmount()
        self.assertNotIn(record.path, packs.pack_files(self.store))
        self.fsck('-n', '--deep')

    def test_control_files(self):
        contents = {'f': data_of(1, 2 * BLOCK)}
        self.make(contents)
        socket_path = os.path.join(self.store, 'control.sock')
        lock = os.path.join(self.store, 'lock')
        readers = os.path.join(self.store, 'index', 'lock.mdb')
        with open(lock, 'wb') as file:
            file.write(os.urandom(5000))
        with open(readers, 'wb') as file:
            file.write(os.urandom(8192))
        with open(socket_path, 'wb') as file:
            file.write(b'no socket')
        self.fsck('-n', '--scrub')
        self.mount()
        self.assertEqual(self.read('f'), contents['f'])
        self.assertEqual(self.stats()['mounted'], True)
        self.unmount()
        # Settings that do not fit the rest of the store are refused by name.
        conf = os.path.join(self.store, 'sepfs.conf')
        with open(conf, encoding='utf-8') as file:
            text = file.read()
        for old, new in (('uuid=', 'uuie='), ('format=0', 'format=1'), ('block_size=131072',
                                                                        'block_size=131073')):
            self.assertIn(old, text)
            with open(conf, 'w', encoding='utf-8') as file:
                file.write(text.replace(old, new))
            done = run(tool('sepfs'), self.store, self.mp, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(self.store, done.stderr)
        with open(conf, 'w', encoding='utf-8') as file:
            file.write(text)
        self.fsck('-n', '--deep')

    def test_scrub_by_itself(self):
        contents = {f'f{number}': data_of(number, BLOCK) for number in range(4)}
        inodes = self.make(contents)
        record = packs.record_of(self.store, inodes['f2'])
        packs.damage(record)
        self.mount('scrub=1s', foreground=True)
        wait_for(lambda: self.stats()['scrub']['rounds'] >= 2, 'two rounds', 60)
        line = f'scrub: /f2: block {record.id} in pack {record.pack} at offset {record.offset}: ' \
               'checksum does not match'
        self.assertIn(line, self.m.read_log())
        status = json.loads(run(tool('sepfs-scrub'), self.mp, '--stop', '--json').stdout)
        self.assertEqual(status['state'], 'stopped')
        shown = run(tool('sepfs-scrub'), self.mp, '--status', check=False)
        self.assertEqual(shown.returncode, 4)
        self.assertIn('last complete round: 4 blocks checked, ', shown.stdout)
        self.assertIn(': 1 damaged, 0 packs with a damaged header', shown.stdout)
        self.assertIn('1 damaged', run(tool('sepfs-stats'), self.mp).stdout)
        metrics = run(tool('sepfs-stats'), '--prometheus', self.mp).stdout
        self.assertIn(f'sepfs_scrub_damaged_blocks{{store="{self.store}"}} 1\n', metrics)
        self.assertIn('sepfs_daemon_scrub_last_damaged{', metrics)
        self.unmount()
        stats = self.stats()['scrub']
        self.assertEqual((stats['last_blocks'], stats['last_damaged_blocks']), (4, 1))
        self.assertGreater(stats['finished_at'], 1700000000)
        self.mount('ro')
        done = run(tool('sepfs-scrub'), self.mp, check=False)
        self.assertEqual(done.returncode, 1)

    def test_missing_pack(self):
        self.mount()
        self.write('f', data_of(1, 3 * BLOCK))
        self.write('small', b'inline')
        self.unmount()
        for path in packs.pack_files(self.store):
            os.unlink(path)
        self.fsck('-n', expect=4)
        self.mount()
        self.assert_errno(errno.EIO, self.read, 'f')
        self.assertEqual(self.read('small'), b'inline')
        self.assertEqual(os.path.getsize(self.path('f')), 3 * BLOCK)


if __name__ == '__main__':
    sepfs_test.main()
