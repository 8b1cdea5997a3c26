# SPDX-License-Identifier: BSD-2-Clause
"""The checker of whole trees on mounts, with compaction, recoding, garbage collection, dropped caches
and remounts between its operations. SEPFS_TREE_SECONDS is the time of a case (default 40); with
SEPFS_TREE_SEED the seeds begin there, else where the clock says: they are printed."""
import os
import stat
import subprocess
import time

import sepfs_test
from sepfs_test import BUILD, tool

CHECKER = os.path.join(BUILD, 'tests', 'mount', 'treecheck')
SECONDS = int(os.environ.get('SEPFS_TREE_SECONDS', '40'))
HOOK = r'''#!/bin/sh
# what treecheck asks for; STORE, MOUNT, OPTIONS, TOOLS come from the environment
case $1 in
compact) "$TOOLS/sepfs-compact" "$MOUNT" --all --wait ;;
recode) "$TOOLS/sepfs-compact" "$MOUNT" --all --wait --codec=zstd:19 ;;
gc) "$TOOLS/sepfs-compact" "$MOUNT" --gc --wait ;;
drop) [ ! -w /proc/sys/vm/drop_caches ] || echo 2 >/proc/sys/vm/drop_caches ;;
remount) "$TOOLS/sepfs-umount" "$MOUNT" && "$TOOLS/sepfs" "$STORE" "$MOUNT" -o "$OPTIONS" ;;
*) exit 2 ;;
esac >/dev/null
'''


class Tree(sepfs_test.MountTest):
    def check(self, options, *arguments):
        """Runs the checker for its time; then the store is checked in full."""
        hook = os.path.join(self.dir, 'hook')
        with open(hook, 'w', encoding='utf-8') as file:
            file.write(HOOK)
        os.chmod(hook, stat.S_IRWXU)
        seed = os.environ.get('SEPFS_TREE_SEED', str(int(time.time())))
        environment = dict(os.environ, STORE=self.store, MOUNT=self.mp, OPTIONS=options,
                           TOOLS=sepfs_test.TOOLS)
        self.mount(options)
        done = subprocess.run([CHECKER, self.mp, f'--seconds={SECONDS}', f'--seed={seed}',
                               '--hook=' + hook, '--shrink=120', *arguments], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors='replace', timeout=SECONDS + 600, check=False)
        print(done.stdout if done.returncode else done.stdout.splitlines()[-1])
        self.assertEqual(done.returncode, 0)
        self.assertNotIn('not supported', done.stdout)
        self.m.pid = self.m.find_pid()  # of the last of several daemons
        self.unmount()
        self.fsck('--deep')

    def test_alone(self):
        """One process: what is found is shrunk to a few operations."""
        self.check('block_size=16K,cache=1M,dirty=8M,cold_after=0s', '--processes=1',
                   '--operations=4000')

    def test_together(self):
        self.check('cold_after=1s,promote,threads=2', '--processes=3', '--operations=4000')

    def test_writeback(self):
        self.check('block_size=16K,cold_after=0s,writeback,commit=1s', '--processes=2',
                   '--operations=4000')


if __name__ == '__main__':
    sepfs_test.main()
