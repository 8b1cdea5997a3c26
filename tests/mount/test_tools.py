# SPDX-License-Identifier: BSD-2-Clause
"""The tools people use: copies, archives, version control, a database, a compiler. Each leaves the
same contents, modes, owners, times and attributes as on the host, also after a remount, and a store
that sepfs-fsck --deep finds clean."""
import os
import random
import shutil
import subprocess
import threading
import unittest

import sepfs_test
from sepfs_test import BLOCK, data_of, run, sample_tree, tree_of


class Tools(sepfs_test.MountTest):
    def setUp(self):
        super().setUp()
        self.mount()
        self.source = sample_tree(os.path.join(self.dir, 'source'))

    def check(self, name='copy', times=True):
        """NAME equals the source now, after a remount, and the store is clean."""
        self.assert_same_tree(self.source, self.path(name), times)
        self.remount()
        self.assert_same_tree(self.source, self.path(name), times)
        self.unmount()
        self.fsck()

    def test_cp(self):
        run('cp', '-a', self.source, self.path('copy'))
        run('diff', '-r', '--no-dereference', self.source, self.path('copy'), check=False)
        self.check()

    def test_cp_out_and_in_again(self):
        run('cp', '-a', self.source, self.path('first'))
        run('cp', '-a', self.path('first'), self.path('copy'))
        self.assertEqual(tree_of(self.path('first')), tree_of(self.path('copy')))
        self.check()

    def test_rsync(self):
        run('rsync', '-aHX', self.source + '/', self.path('copy'))
        self.assertEqual(run('rsync', '-naHXci', self.source + '/', self.path('copy')).stdout, '')
        with open(os.path.join(self.source, 'file-0.new'), 'wb') as file:
            file.write(data_of(5, 300000))
        run('rsync', '-aHX', '--inplace', '--no-whole-file', self.source + '/', self.path('copy'))
        self.check()

    def test_tar(self):
        archive = os.path.join(self.dir, 'a.tar')
        run('tar', '-C', self.source, '--xattrs', '-cf', archive, '.')
        os.mkdir(self.path('copy'))
        run('tar', '-C', self.path('copy'), '--xattrs', '--xattrs-include=*', '-xpf', archive)
        back = os.path.join(self.dir, 'back')
        os.mkdir(back)
        run('tar', '-C', self.path('copy'), '--xattrs', '-cf', self.path('b.tar'), '.')
        run('tar', '-C', back, '--xattrs', '--xattrs-include=*', '-xpf', self.path('b.tar'))
        self.assert_same_tree(self.source, back)
        self.check()

    def test_git(self):
        environment = dict(os.environ, GIT_CONFIG_GLOBAL='/dev/null', GIT_CONFIG_SYSTEM='/dev/null',
                           GIT_AUTHOR_NAME='a', GIT_AUTHOR_EMAIL='a@example.org',
                           GIT_COMMITTER_NAME='a', GIT_COMMITTER_EMAIL='a@example.org')

        def git(*arguments):
            return run('git', '-C', self.path('work'), *arguments, env=environment).stdout
        os.mkdir(self.path('work'))
        git('init', '-q', '-b', 'main')
        for number in range(40):
            self.write(f'work/{number}.txt', data_of(number, 4000))
        git('add', '.')
        git('commit', '-qm', 'one')
        for number in range(20):
            self.write(f'work/{number}.txt', data_of(number + 100, 4500))
        git('commit', '-qam', 'two')
        git('gc', '-q', '--prune=now')
        git('fsck', '--full', '--strict')
        run('git', 'clone', '-q', '--no-local', self.path('work'), self.path('clone'), env=environment)
        head = git('rev-parse', 'HEAD')
        self.remount()
        git('fsck', '--full', '--strict')
        self.assertEqual(git('rev-parse', 'HEAD'), head)
        self.assertEqual(git('status', '--porcelain'), '')
        run('git', '-C', self.path('clone'), 'fsck', '--full', env=environment)
        self.unmount()
        self.fsck()

    def test_sqlite(self):
        database = self.path('a.db')

        def sql(text):
            return run('sqlite3', '-bail', database, text).stdout.strip()
        for mode in ('delete', 'wal'):
            sql(f'pragma journal_mode={mode}; create table if not exists t(a integer primary key, b);')
            for round_number in range(5):
                sql('begin; with recursive n(i) as (select 1 union all select i+1 from n where '
                    f'i<2000) insert into t(b) select printf("row %d of {round_number}", i) from n;'
                    'commit; delete from t where a % 7 = 3; update t set b = b || "x" where a % 5=0;')
            self.assertEqual(sql('pragma integrity_check;'), 'ok')
        count = sql('select count(*), sum(length(b)) from t;')
        self.remount()
        self.assertEqual(sql('pragma integrity_check;'), 'ok')
        self.assertEqual(sql('select count(*), sum(length(b)) from t;'), count)
        self.unmount()
        self.fsck()

    def test_compile(self):
        os.mkdir(self.path('c'))
        names = []
        for number in range(8):
            names.append(f'f{number}.o')
            self.write(f'c/f{number}.c', f'int f{number}(int a) {{ return a + {number}; }}\n'.encode())
        calls = ' + '.join(f'f{number}(1)' for number in range(8))
        declared = ''.join(f'int f{number}(int);' for number in range(8))
        self.write('c/main.c', f'{declared}\nint main(void) {{ return ({calls}) == 36 ? 0 : 1; }}\n'
                   .encode())
        self.write('c/Makefile', ('main: main.o ' + ' '.join(names) + '\n\t$(CC) -o $@ $^\n').encode())
        run('make', '-s', '-j2', '-C', self.path('c'))
        run(self.path('c/main'))
        self.assertIn('up to date', run('make', '-C', self.path('c')).stdout)
        self.remount()
        run(self.path('c/main'))

    def test_acl_and_attributes(self):
        self.remount('acl')
        path = self.write('a', b'x')
        run('setfacl', '-m', 'u:1234:rw,g:4321:r', path)
        run('setfattr', '-n', 'user.k', '-v', 'v', path)
        os.mkdir(self.path('d'))
        run('setfacl', '-d', '-m', 'u:1234:rwx', self.path('d'))
        self.write('d/inherits', b'y')
        expected = run('getfacl', '-cpn', path, self.path('d/inherits')).stdout
        self.assertIn('user:1234:rw-', expected)
        self.assertEqual(expected.count('user:1234:'), 2)
        run('cp', '-a', path, self.path('b'))
        self.assertEqual(run('getfacl', '-cpn', path).stdout, run('getfacl', '-cpn', self.path('b')).stdout)
        self.assertEqual(os.getxattr(self.path('b'), 'user.k'), b'v')
        self.remount('acl')
        self.assertEqual(run('getfacl', '-cpn', path, self.path('d/inherits')).stdout, expected)


class Contents(sepfs_test.MountTest):
    """Patterns of writing, checked against the same calls on a host file."""

    def setUp(self):
        super().setUp()
        self.mount()

    def test_patterns(self):
        source = random.Random(7)
        model = os.path.join(self.dir, 'model')
        with open(model, 'w+b', buffering=0) as one, open(self.path('file'), 'w+b', buffering=0) as two:
            for step in range(400):
                offset = source.randrange(0, 6 * BLOCK)
                size = source.choice([1, 100, 4096, BLOCK // 2, BLOCK, BLOCK + 3])
                what = source.choice('wwwwrtph')
                for file in (one, two):
                    if what == 'w':
                        file.seek(offset)
                        file.write(data_of(step, size))
                    elif what == 't':
                        file.truncate(offset)
                    elif what == 'p':
                        run('fallocate', '-p', '-o', str(offset), '-l', str(size), file.name)
                    elif what == 'h':
                        run('fallocate', '-z', '-o', str(offset), '-l', str(size), file.name)
                if what == 'r':
                    one.seek(offset)
                    two.seek(offset)
                    self.assertEqual(one.read(size), two.read(size), f'step {step}')
            self.assertEqual(os.fstat(one.fileno()).st_size, os.fstat(two.fileno()).st_size)
        run('cmp', model, self.path('file'))
        self.remount()
        run('cmp', model, self.path('file'))
        self.compact()
        run('cmp', model, self.path('file'))
        self.unmount()
        self.fsck()

    def test_concurrent_writers(self):
        script = ('import sys, os\nsys.path.insert(0, sys.argv[1])\nfrom sepfs_test import data_of\n'
                  'top, me = sys.argv[2], int(sys.argv[3])\n'
                  'for n in range(60):\n'
                  '    with open(f"{top}/{me}-{n % 20}", "wb") as f:\n'
                  '        f.write(data_of(me * 1000 + n, 50000 + n))\n'
                  '    with open(f"{top}/shared", "r+b") as f:\n'
                  '        f.seek((n * 4 + me) * 1000)\n'
                  '        f.write(bytes([me + 1]) * 1000)\n')
        self.write('shared', b'')
        here = os.path.dirname(os.path.abspath(__file__))
        processes = [subprocess.Popen(['python3', '-c', script, here, self.mp, str(me)])
                     for me in range(4)]
        for process in processes:
            self.assertEqual(process.wait(120), 0)
        expected = b''.join(bytes([me + 1]) * 1000 for _ in range(60) for me in range(4))
        for _ in range(2):
            self.assertEqual(self.read('shared'), expected)
            for me in range(4):
                for slot in range(20):
                    number = slot + 40
                    self.assertEqual(self.read(f'{me}-{slot}'),
                                     data_of(me * 1000 + number, 50000 + number))
            self.remount()
        self.unmount()
        self.fsck()

    def test_open_files_renamed_and_removed(self):
        first, second = data_of(1, 300000), data_of(2, 200000)
        self.write('a', first)
        with open(self.path('a'), 'r+b') as a, open(self.write('b', second), 'rb') as b:
            os.rename(self.path('b'), self.path('a'))
            self.assertEqual(a.read(), first)
            a.seek(100)
            a.write(b'still here')
            a.flush()
            a.seek(100)
            self.assertEqual(a.read(10), b'still here')
            self.assertEqual(os.fstat(a.fileno()).st_nlink, 0)
            self.assertEqual(b.read(), second)
            os.unlink(self.path('a'))
            b.seek(0)
            self.assertEqual(b.read(), second)
            self.assertEqual(os.listdir(self.mp), [])
        self.remount()
        self.assertEqual(os.listdir(self.mp), [])
        self.unmount()
        self.assertIn('clean', self.fsck())

    def test_readers_see_writes(self):
        """What a thread has written, another reads back at once, while blocks are written back.
        sequence[page] is odd while the page is being written, when a read may see both values."""
        pages, stop, bad = 8 * BLOCK // 4096, threading.Event(), []
        sequence, value = [0] * pages, [0] * pages
        self.write('f', bytes(pages * 4096))

        def reader():
            source = random.Random(3)
            with open(self.path('f'), 'rb', buffering=0) as file:
                while not stop.is_set():
                    number = source.randrange(pages)
                    before, expected = sequence[number], value[number]
                    file.seek(number * 4096)
                    page = file.read(4096)
                    if before % 2 == 0 and before == sequence[number] and page != bytes([expected]) * 4096:
                        bad.append((number, expected, page[:4], page[-4:]))
        threads = [threading.Thread(target=reader) for _ in range(2)]
        for thread in threads:
            thread.start()
        source = random.Random(4)
        with open(self.path('f'), 'r+b', buffering=0) as file:
            for _ in range(3000):
                number, new = source.randrange(pages), source.randrange(256)
                sequence[number] += 1
                file.seek(number * 4096)
                file.write(bytes([new]) * 4096)
                value[number] = new
                sequence[number] += 1
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(bad, [])
        self.assertEqual(self.read('f'), b''.join(bytes([last]) * 4096 for last in value))

    def test_large_directory(self):
        os.mkdir(self.path('d'))
        names = [f'name-{number:05}' for number in range(20000)]
        for name in names:
            os.close(os.open(self.path('d', name), os.O_CREAT | os.O_WRONLY, 0o600))
        self.assertEqual(sorted(os.listdir(self.path('d'))), names)
        self.remount()
        self.assertEqual(sorted(os.listdir(self.path('d'))), names)
        shutil.rmtree(self.path('d'))
        self.assertEqual(os.listdir(self.mp), [])
        self.unmount()
        self.fsck()


if __name__ == '__main__':
    sepfs_test.main()
