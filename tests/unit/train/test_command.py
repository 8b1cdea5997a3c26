#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sepfs-train as a command: same seed, same bytes; interruption; refusals; kill -9."""
import os
import random
import signal
import subprocess
import tempfile
import time
import unittest

TRAIN = os.environ['TRAIN']
WORDS = 'the river runs below an old mill where nobody has counted stones since spring'.split()


def run(*arguments):
    return subprocess.run([TRAIN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, timeout=250)


class TrainTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='sepfs-train-')
        self.data = os.path.join(self.folder.name, 'data')
        self.model = os.path.join(self.folder.name, 'model.sepm')
        os.mkdir(self.data)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, files, size):
        for number in range(files):
            source = random.Random(number)
            words = ' '.join(source.choice(WORDS) for _ in range(size // 6))
            with open(os.path.join(self.data, f'{number}.txt'), 'w', encoding='ascii') as out:
                out.write(words)

    def read_model(self):
        with open(self.model, 'rb') as source:
            return source.read()


class Command(TrainTest):
    def test_same_seed_same_bytes(self):
        self.write(40, 20000)
        first = run('--no-net', '--threads=1', '-o', self.model, self.data)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn('gain', first.stdout)
        once = self.read_model()
        os.unlink(self.model)
        again = run('--no-net', '--threads=2', '-o', self.model, self.data)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(once, self.read_model())
        self.assertEqual(sorted(os.listdir(self.folder.name)), ['data', 'model.sepm'])

    def test_interrupted_leaves_a_checkpoint(self):
        self.write(40, 500000)
        with subprocess.Popen([TRAIN, '--progress=always', '--size=16M', '-o', self.model,
                               self.data], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as training:
            for line in training.stderr:
                if line.startswith('learning'):
                    training.send_signal(signal.SIGINT)
                    break
            rest = training.stderr.read()
            self.assertEqual(training.wait(timeout=250), 130, rest)
        self.assertIn('interrupted', rest)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ['data', 'model.sepm.checkpoint'])
        other = run('--resume', '--seed=2', '--size=16M', '-o', self.model, self.data)
        self.assertEqual(other.returncode, 1)
        self.assertIn('belongs to other data', other.stderr)

    def test_refusals(self):
        self.assertEqual(run().returncode, 2)
        self.assertEqual(run('--resume', self.data).returncode, 2)
        for wrong in ('--kind=own', '--data=sound', '--size=1', '--time=never', '--seed=x',
                      '--threads=0', '--rows-log=17'):
            answer = run(wrong, self.data)
            self.assertEqual(answer.returncode, 2, wrong)
            self.assertIn(wrong.split('=')[0], answer.stderr)
        empty = run(self.data)
        self.assertEqual(empty.returncode, 1)
        self.assertIn('no block to learn from', empty.stderr)


class Kill(TrainTest):
    def test_kills(self):
        """Killed while it writes a checkpoint, and at any other moment: what lies there is whole or
        absent, and the model is in the end the one of a run that nobody disturbed."""
        self.write(40, 150000)
        options = ('--rows-log=8', '--size=5M', '--threads=1', '-o', self.model, self.data)
        quiet = run(*options)
        self.assertEqual(quiet.returncode, 0, quiet.stderr)
        wanted = self.read_model()
        os.unlink(self.model)
        source, checkpoints = random.Random(5), 0
        for number in range(10):
            if os.path.exists(self.model): # it was quicker
                self.assertEqual(self.read_model(), wanted)
                os.unlink(self.model)
            resume = ('--resume',) if os.path.exists(self.model + '.checkpoint') else ()
            checkpoints += len(resume)
            training = subprocess.Popen([TRAIN, '--progress=always', *resume, *options],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for line in training.stderr:
                if line.startswith('learning'):
                    break
            if number % 3 != 0:
                training.send_signal(signal.SIGINT)
                time.sleep(source.uniform(0, 0.3))
            training.kill()
            training.stderr.read()
            training.wait(timeout=60)
            training.stderr.close()
        self.assertGreater(checkpoints, 0)
        if os.path.exists(self.model):
            os.unlink(self.model)
        resume = ('--resume',) if os.path.exists(self.model + '.checkpoint') else ()
        done = run(*resume, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read_model(), wanted)



if __name__ == '__main__':
    unittest.main()
