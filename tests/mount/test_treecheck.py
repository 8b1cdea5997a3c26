# SPDX-License-Identifier: BSD-2-Clause
"""The checker of whole trees, checked: on a plain directory it finds nothing; a fault that it plants
itself is found, shrunk to a handful of operations, and found again in them, but only with the fault.

usage: test_treecheck.py TREECHECK"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

HANDFUL = 8  # operations; the planted faults need three to five


class SelfTest(unittest.TestCase):
    checker = ''

    def setUp(self):
        memory = '/dev/shm'  # hundreds of trials, each with many fsyncs: no work for a disk
        place = memory if os.access(memory, os.W_OK | os.X_OK) else None
        self.directory = tempfile.TemporaryDirectory(prefix='treecheck-', dir=place)
        self.addCleanup(self.directory.cleanup)

    def run_checker(self, *arguments):
        done = subprocess.run([self.checker, self.directory.name, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors='replace', timeout=300, check=False)
        self.assertIn(done.returncode, (0, 1), done.stdout)
        return done

    def test_a_plain_directory_passes(self):
        for arguments in (['--processes=1', '--operations=8000'],
                          ['--processes=3', '--operations=3000']):
            done = self.run_checker('--seed=1', *arguments)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stdout, r'[1-9]\d{3,} operations, passed')
            self.assertEqual(os.listdir(self.directory.name), [])

    def test_a_seed_repeats_its_operations(self):
        """Two runs of one seed, failing at the same operation with the same list."""
        lists = []
        for name in ('one', 'two'):
            path = os.path.join(self.directory.name, name)
            self.run_checker('--processes=1', '--operations=20000', '--seed=5', '--plant=exchange',
                             '--trace=' + path)
            with open(path, encoding='utf-8') as file:
                lists.append(file.read())
        self.assertEqual(lists[0], lists[1])
        self.assertGreater(lists[0].count('\n'), 20)

    def test_planted_faults_are_found_and_shrunk(self):
        for plant in ('punch', 'exchange'):
            for seed in (1, 2):
                trace = os.path.join(self.directory.name, f'{plant}-{seed}')
                done = self.run_checker('--processes=1', '--operations=20000', f'--seed={seed}',
                                        '--plant=' + plant, '--shrink=120', '--trace=' + trace)
                self.assertEqual(done.returncode, 1, f'{plant} was not found')
                before, after = map(int, re.search(r'(\d+) operations shrunk to (\d+)',
                                                   done.stdout).groups())
                self.assertLess(after, before)
                self.assertLessEqual(after, HANDFUL, done.stdout)
                again = self.run_checker('--replay=' + trace, '--plant=' + plant)
                self.assertEqual(again.returncode, 1, 'the short list does not show the fault')
                self.assertIn('FAILED', again.stdout)
                alone = self.run_checker('--replay=' + trace)
                self.assertEqual(alone.returncode, 0, alone.stdout)


if __name__ == '__main__':
    SelfTest.checker = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
