# SPDX-License-Identifier: BSD-2-Clause
"""The conformance suite and the random-operation checker on a mount: with the default options, with
small blocks and little cache, with the kernel's write-back cache, and while the compactor runs."""
import os
import subprocess

import sepfs_test
from sepfs_test import BUILD, run, tool

PROGRAMS = os.path.join(BUILD, 'tests', 'mount')
# What libfuse 3.14 has no operation for, by the start of its line; nothing else may be skipped.
NOT_IN_LIBFUSE = ('open: O_TMPFILE', 'time: the birth time')


class Posix(sepfs_test.MountTest):
    def conformance(self, options, *arguments):
        """All rules hold on a mount with OPTIONS."""
        if os.geteuid() == 0:
            options = ','.join(filter(None, ['allow_other', options]))
        self.mount(options)
        lines = run(os.path.join(PROGRAMS, 'conformance'), self.mp, *arguments, check=False,
                    timeout=1800).stdout.splitlines()
        self.assertEqual([line for line in lines if line.startswith('FAIL')], [])
        self.assertGreater(sum(line.startswith('ok ') for line in lines), 200)
        self.assertRegex(lines[-1], r'^\d+ passed, \d+ failed, \d+ skipped$')
        if os.geteuid() == 0:
            skipped = [line for line in lines if line.startswith('skip') and
                       not line[6:].startswith(NOT_IN_LIBFUSE)]
            self.assertEqual(skipped, [])
        self.unmount()
        self.fsck('--deep')

    def fsx(self, options, seed, meanwhile=None):
        self.mount(options)
        checker = subprocess.Popen([os.path.join(PROGRAMS, 'fsx'), self.mp, '--seconds=15',
                                    f'--seed={seed}'], stdout=subprocess.PIPE, text=True)
        while meanwhile and checker.poll() is None:
            meanwhile()
        output = checker.communicate(timeout=120)[0]
        self.assertEqual(checker.returncode, 0, output)
        self.assertNotIn('not supported', output)
        self.unmount()
        self.fsck('--deep')

    def test_conformance(self):
        self.conformance('acl', '--large')

    def test_conformance_small_blocks(self):
        self.conformance('acl,block_size=16K,cache=1M,dirty=8M,cold=off')

    def test_conformance_writeback(self):
        self.conformance('acl,writeback')

    def test_fsx(self):
        self.fsx('', 1)

    def test_fsx_small_blocks(self):
        self.fsx('block_size=16K,cache=1M,dirty=8M', 2)

    def test_fsx_writeback(self):
        self.fsx('writeback', 3)

    def test_fsx_while_compacting(self):
        passes = []

        def compact():
            codec = ('sep', 'zstd:19', 'lz4')[len(passes) % 3]
            passes.append(run(tool('sepfs-compact'), self.mp, '--all', '--wait', '--codec=' + codec))
        self.fsx('block_size=16K', 4, compact)
        self.assertGreater(len(passes), 3)


if __name__ == '__main__':
    sepfs_test.main()
