# SPDX-License-Identifier: BSD-2-Clause
"""kill -9 of the daemon, and of sepfs-fsck, in the middle of each kind of work: what fsync acknowledged
is there afterwards, names and bytes; a rename is old or new; the store mounts without a repair.

usage: test_kill.py [--kills=N] [--seed=N] [--class=NAME] [--lanes=N]
       test_kill.py --self-test

Stores are worked on in lanes, each a process with a store, a mount and three writers of its own
(kill_manifest.py). A life of a daemon ends by a kill of some class at a random moment. It counts only
when it met what it was to meet, and each class has its way to see that:

  write fsync names   a writer's call of that kind was under way: it ended with ECONNABORTED, which the
                      kernel gives to calls that the daemon had not answered when it died
  compact             a request was not answered when the daemon died, and blocks were left
  gc                  the same, and no blocks were left: garbage was being collected
  promote             nobody had asked for a pass, compaction by age is off, and blocks were done
  fsck                sepfs-fsck -y had the index open, on a store that has what it must repair
  umount              sepfs-umount had not returned
  recover             the daemon had the index open, after a kill, and was not mounted yet

The next mount shows what is left of the promises. After some lives the store is unmounted and checked
with sepfs-fsck --scrub, after fewer with --deep, and after some right behind the kill, before anything
recovers it.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from kill_daemon import (DEADLINE, TOOLS, Control, Daemon, Moment, has_open, is_mounted, run, stop, tool, wait_for)
from kill_manifest import Manifest, start_writer

ABORTED = 103  # ECONNABORTED
WRITERS = 3
# Of 208 kills.
SHARES = {'write': 28, 'fsync': 36, 'names': 40, 'compact': 28, 'gc': 16, 'promote': 4, 'fsck': 18,
          'umount': 16, 'recover': 22}
OPTIONS = 'commit=1,dirty=8M,cache=1M,threads=2,cold=off,cold_after=4,promote'
METHODS = ('sep', 'zstd:9', 'lz4', 'zstd:1', 'lz4:9', 'zstd:12')
EXCESS = 66 << 14  # bytes: more than the cache holds
GARBAGE = 8 << 20  # bytes
PROMOTE_READS = 3  # decodes that make the daemon promote a block
PROMOTE_SECONDS = 30
TRIES = 25  # to meet what a kill is to meet, of which lanes give up on a class


class Lost(Exception):
    """A promise was broken."""


def read_past_cache(path):
    """Past the kernel's."""
    with open(path, 'rb') as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return file.read()


def lines_of(source, size):
    """What the SEP codec makes smaller than zstd does."""
    lines = []
    while len(lines) * 24 < size:
        lines.append(b'%09d %05d state=%d\n' % (len(lines), source.randrange(99999), source.randrange(7)))
    return b''.join(lines).ljust(size, b'.')[:size]


class Lane:
    def __init__(self, directory, seed, kill_damage):
        self.random = random.Random(seed)
        self.store, self.path = os.path.join(directory, 'store'), os.path.join(directory, 'mnt')
        self.directory, self.kill_damage = directory, kill_damage
        self.manifests = [Manifest() for _ in range(WRITERS)]
        self.made = False
        self.lives = self.mounts = self.checks = self.deep = 0
        self.writers, self.daemon = [], None
        self.moments = {name: Moment(.05) for name in SHARES}
        self.hits, self.misses = {}, {}

    # ---- lives ----

    def mount(self, more=''):
        """Mounts, without a repair, and compares with what was promised."""
        new = '' if os.path.exists(self.store) else ',block_size=16K'
        self.daemon = Daemon(self.store, self.path, OPTIONS + new + more)
        self.daemon.wait_mounted()
        self.mounts += 1
        self.compare()
        if not self.made:
            self.made = True
            for i in range(WRITERS):
                os.mkdir(self.top(i))
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            os.fsync(fd)
            os.close(fd)

    def top(self, i):
        return os.path.join(self.path, f'writer{i}')

    def compare(self):
        problems = []
        for i, manifest in enumerate(self.manifests):
            if self.made:
                problems += manifest.compare(self.top(i))
        if problems:
            raise Lost('\n'.join(problems))

    def start_writers(self, mix, lie=False, count=WRITERS):
        self.lives += 1
        for i, manifest in enumerate(self.manifests[:count]):
            directory = os.open(self.top(i), os.O_RDONLY | os.O_DIRECTORY)
            log = self.log(i)
            seed = self.random.randrange(1 << 40)
            self.writers.append(start_writer(manifest, directory, log, mix, seed, lie))
            os.close(directory)

    def log(self, i):
        return os.path.join(self.directory, f'manifest{i}')

    def end_writers(self, ask=False):
        """They end when the daemon is gone, or when they are asked to."""
        for pid in self.writers:
            if ask:
                os.kill(pid, signal.SIGTERM)
        for pid in self.writers:
            os.waitpid(pid, 0)
        self.writers = []
        for i, manifest in enumerate(self.manifests):
            manifest.ends = set()
            if os.path.exists(self.log(i)):
                manifest.read(self.log(i))
                os.unlink(self.log(i))
            if manifest.errors:
                raise Lost(f'writer {i}: {manifest.errors[0]}')

    def kill(self):
        self.daemon.kill()
        self.end_writers()
        self.daemon.clear()

    def let_write(self, seconds):
        """Work for the next kill: by writers that end before it."""
        self.start_writers('mixed')
        time.sleep(seconds)
        self.end_writers(ask=True)

    # ---- checks ----

    def fsck(self, depth):
        status, text = run(tool('sepfs-fsck'), self.store, '-n', depth)
        self.checks += 1
        self.deep += depth == '--deep'
        if status != 0:
            raise Lost(f'sepfs-fsck {depth}: exit {status}: {text}')

    def between(self):
        """Behind a kill: a check of what it left, or of what a mount made of it, or none."""
        dice = self.random.randrange(12)
        if dice == 0:
            self.fsck(self.random.choice(('--scrub', '--scrub', '--deep')))
        elif dice < 3:
            self.mount()
            self.daemon.unmount()
            self.fsck('--deep' if dice == 1 else '--scrub')

    # ---- kills of each class: whether it met what it was to meet ----

    def storm(self, mix, kind):
        self.start_writers(mix)
        time.sleep(self.random.uniform(.02, .3))
        self.kill()
        return any((ABORTED, kind) in manifest.ends for manifest in self.manifests)

    def kill_write(self):
        return self.storm('write', 'write')

    def kill_fsync(self):
        return self.storm('fsync', 'fsync')

    def kill_names(self):
        return self.storm('names', 'names')

    def asked(self, name, request, ready):
        """Asks for compaction; kills at a random moment of what READY sees in the status. Whether the
        answer was still owed."""
        control, waiting = Control(self.store), Control(self.store)
        try:
            ticket = control.ask('compact ' + request)['ticket']
            waiting.send(f'wait ticket={ticket} timeout_ms=600000')
            status = control.ask('status')
            while not ready(status) and not waiting.is_answered():
                status = control.ask('status')
            self.moments[name].sleep(self.random)
            met = ready(control.ask('status'))
            self.kill()
            return waiting.answer() is None and met
        finally:
            control.close()
            waiting.close()

    def kill_compact(self):
        self.let_write(.05)
        self.start_writers('mixed', count=self.random.choice((0, 1, WRITERS)))
        method = self.random.choice(METHODS)
        return self.asked('compact', f'all=1 method={method}', lambda status: status['running'] == 1 and
                          status['blocks_total'] > status['blocks_done'])

    def compact(self, request):
        control = Control(self.store)
        ticket = control.ask('compact ' + request)['ticket']
        control.ask(f'wait ticket={ticket} timeout_ms=600000')
        control.close()

    def packs(self):
        return set(os.listdir(os.path.join(self.store, 'packs')))

    def kill_gc(self):
        """Every other of many blocks that no codec makes smaller becomes garbage. What lives among it is
        copied to a pack that was not there, before any goes."""
        kept, gone = os.path.join(self.path, 'kept'), os.path.join(self.path, 'gone')
        data = os.urandom(GARBAGE)
        with open(kept, 'wb') as one, open(gone, 'wb') as other:
            for at in range(0, GARBAGE, 1 << 16):
                one.write(data[at:at + (1 << 16)])
                other.write(os.urandom(1 << 16))
            for file in (one, other):
                file.flush()
                os.fsync(file.fileno())
        self.compact(f'all=1 method=zstd:1 ino={os.stat(kept).st_ino}')
        os.unlink(gone)
        before = self.packs()
        control, waiting = Control(self.store), Control(self.store)
        try:
            ticket = control.ask('compact all=1 gc=1 method=zstd:1')['ticket']
            waiting.send(f'wait ticket={ticket} timeout_ms=600000')
            while self.packs() <= before and not waiting.is_answered():
                pass
            self.moments['gc'].sleep(self.random)
            self.kill()
            after = self.packs()
            met = waiting.answer() is None and after > before
        finally:
            control.close()
            waiting.close()
        self.mount()
        if read_past_cache(kept) != data:
            raise Lost('kept: other bytes after the kill')
        os.unlink(kept)
        self.kill()
        return met

    def kill_promote(self):
        """A file larger than the cache is read until its blocks were decoded often enough; the daemon's
        timer does the rest."""
        path = os.path.join(self.path, 'read often')
        data = lines_of(self.random, EXCESS)
        with open(path, 'wb') as file:
            file.write(data)
        self.compact(f'all=1 method=sep:1 ino={os.stat(path).st_ino}')
        for _ in range(PROMOTE_READS):
            if read_past_cache(path) != data:
                raise Lost('read often: other bytes')

        def promoting():
            status = control.ask('status')
            return status['running'] == 1 and status['blocks_done'] > 0
        control = Control(self.store)
        try:
            begin = time.monotonic()
            while not promoting() and time.monotonic() - begin < PROMOTE_SECONDS:
                time.sleep(.002)
            self.moments['promote'].sleep(self.random)
            met = promoting()
            self.kill()
        finally:
            control.close()
        self.mount()
        if read_past_cache(path) != data:
            raise Lost('read often: other bytes after the kill')
        os.unlink(path)
        self.kill()
        return met

    def kill_fsck(self):
        self.let_write(.05)
        if self.random.random() < .5:
            self.kill()
        else:
            self.daemon.unmount()
            for manifest in self.manifests:
                manifest.promise_all()
        status, text = run(self.kill_damage, self.store)
        if status != 0:
            raise AssertionError(f'kill_damage: {text}')
        hit = False
        for _ in range(self.random.choice((1, 1, 2))):
            process = subprocess.Popen([tool('sepfs-fsck'), '-y', self.store], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            hit = self.kill_opened(process, 'fsck', lambda: True) or hit
            process.wait(DEADLINE)
            if process.returncode not in (0, 1, -signal.SIGKILL):
                raise Lost(f'sepfs-fsck -y: exit {process.returncode}')
        status, text = run(tool('sepfs-fsck'), '-y', self.store)
        if status not in (0, 1):
            raise Lost(f'sepfs-fsck -y after a kill: exit {status}: {text}')
        self.fsck('--scrub')
        return hit

    def kill_opened(self, process, name, when):
        """Kills PROCESS at a random moment between its opening the index and its end, while WHEN() holds.
        Leaves it alone if it was faster."""
        wait_for(lambda: has_open(process.pid, 'data.mdb') or process.poll() is not None or not when(),
                 'an open index')
        self.moments[name].sleep(self.random)
        if process.poll() is None:
            stop(process)
            met = has_open(process.pid, 'data.mdb') and when()
            if met:
                process.kill()
            os.kill(process.pid, signal.SIGCONT)
            if met: # one that was left alone, a daemon for example, need not end
                process.wait(DEADLINE)
        return process.returncode == -signal.SIGKILL

    def kill_umount(self):
        self.start_writers(self.random.choice(('mixed', 'write')))
        time.sleep(self.random.uniform(.05, .2))
        self.end_writers(ask=True)
        process = subprocess.Popen([tool('sepfs-umount'), self.path], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.moments['umount'].sleep(self.random)
        if process.poll() is None:
            self.daemon.kill()
        process.wait(DEADLINE)
        self.daemon.process.wait(DEADLINE)
        if self.daemon.process.returncode == 0:
            for manifest in self.manifests:
                manifest.promise_all()
        self.daemon.clear()
        return self.daemon.process.returncode == -signal.SIGKILL

    def kill_recover(self):
        """Needs a store that was killed: writers leave files that are open and have no name."""
        self.storm('names', 'names')
        self.daemon = Daemon(self.store, self.path, OPTIONS)
        self.mounts += 1
        hit = self.kill_opened(self.daemon.process, 'recover', lambda: not is_mounted(self.path))
        if not hit:
            self.daemon.wait_mounted()
        self.kill()
        return hit

    # ---- all ----

    def one(self, name):
        """One kill of a class that met what it was to meet."""
        for attempt in range(TRIES):
            # To promote takes longer with a slower codec.
            self.mount(',hot=zstd:9' if name == 'promote' else '')
            hit = getattr(self, 'kill_' + name)()
            self.moments[name].learn(hit)
            if hit:
                self.hits[name] = self.hits.get(name, 0) + 1
            else:
                self.misses[name] = self.misses.get(name, 0) + 1
            self.between()
            if hit:
                return
        raise AssertionError(f'{TRIES} kills in a row did not meet {name}')

    def end(self):
        self.mount()
        self.daemon.unmount()
        self.fsck('--deep')

    def promises(self):
        return sum(manifest.promises for manifest in self.manifests)


def plan(kills, only, source):
    if only:
        return [only] * kills
    names = []
    for name, share in SHARES.items():
        names += [name] * max(1, share * kills // sum(SHARES.values()))
    names += ['names'] * (kills - len(names))
    source.shuffle(names)
    return names


def run_lane(number, names, seed, kill_damage, result_path, top):
    directory = tempfile.mkdtemp(prefix=f'sepfs-kill-{number}-', dir=top)
    lane = Lane(directory, seed, kill_damage)
    text = ''
    try:
        for name in names:
            lane.one(name)
        lane.end()
    except Lost as error:
        text = f'lane {number}, life {lane.lives}, {name}: lost: {error}'
    except Exception as error:  # pylint: disable=broad-except
        text = f'lane {number}, life {lane.lives}, {name}: {type(error).__name__}: {error}'
    if lane.daemon is not None:
        lane.daemon.kill()
        lane.daemon.clear()
    for pid in lane.writers:
        os.waitpid(pid, 0)
    if text:
        text += f'\n  the store is left in {directory}'
    else:
        shutil.rmtree(directory)
    with open(result_path, 'w', encoding='utf-8') as file:
        json.dump({'problem': text, 'hits': lane.hits, 'misses': lane.misses, 'promises': lane.promises(),
                   'mounts': lane.mounts, 'checks': lane.checks, 'deep': lane.deep}, file)


def places():
    """Of the lanes: on the disk and, where there is such a thing, in memory, where all is faster."""
    disk = os.environ.get('SEPFS_TEST_DIR') or tempfile.gettempdir()
    return [disk, '/dev/shm' if os.access('/dev/shm', os.W_OK) else disk]


def run_lanes(options):
    results, pids = [], []
    names = plan(options.kills, options.only, random.Random(options.seed))
    with tempfile.TemporaryDirectory(prefix='sepfs-kill-') as directory:
        for number in range(options.lanes):
            path = os.path.join(directory, f'result{number}')
            pid = os.fork()
            if pid == 0:
                run_lane(number, names[number::options.lanes], options.seed * 1000 + number,
                         options.damage, path, places()[number % 2])
                os._exit(0)
            pids.append((pid, path))
        for pid, path in pids:
            os.waitpid(pid, 0)
            with open(path, encoding='utf-8') as file:
                results.append(json.load(file))
    return results


def report(results, begin):
    bad = 0
    for name in SHARES:
        hits = sum(result['hits'].get(name, 0) for result in results)
        misses = sum(result['misses'].get(name, 0) for result in results)
        if hits or misses:
            print(f'{name:8} {hits:4} kills, {misses} more that met something else')
    for result in results:
        if result['problem']:
            print(result['problem'])
            bad += 1
    total = {key: sum(result[key] for result in results)
             for key in ('promises', 'mounts', 'checks', 'deep')}
    hits = sum(sum(result['hits'].values()) for result in results)
    print(f'{hits} kills, {total["promises"]:,} promises, {total["mounts"]} mounts, {total["checks"]} checks, '
          f'of them {total["deep"]} deep, {bad} with losses, {time.monotonic() - begin:.0f} s')
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--kills', type=int, default=208)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument('--class', dest='only', choices=list(SHARES))
    parser.add_argument('--lanes', type=int, default=2)
    parser.add_argument('--self-test', action='store_true')
    parser.add_argument('--damage', required=True, help='the program kill_damage')
    options = parser.parse_args()
    if not os.path.isdir(TOOLS):
        sys.exit('SEPFS_BUILD: the build directory is not set')
    if not os.access('/dev/fuse', os.R_OK | os.W_OK):
        print('/dev/fuse cannot be opened')
        sys.exit(1 if os.environ.get('CI') == 'true' else 77)
    print(f'seed {options.seed}', flush=True)
    if options.self_test:
        import kill_self_test  # pylint: disable=import-outside-toplevel
        sys.exit(kill_self_test.main() > 0)
    begin = time.monotonic()
    sys.exit(report(run_lanes(options), begin) > 0)


if __name__ == '__main__':
    main()
