# SPDX-License-Identifier: BSD-2-Clause
"""The kill test held to account: what it must notice is planted, one thing at a time, between a kill and
the comparison; and a writer lies, promising what no fsync made so. Without either it finds nothing.
"""
import os
import shutil
import sys
import tempfile
import time

from kill_manifest import TAG
from test_kill import Lane, Lost


def first(lane, fits):
    """Writer and name of a promised file that FITS (number of bytes, tag)."""
    for i, manifest in enumerate(lane.manifests):
        for name, number in sorted(manifest.names.items()):
            file = manifest.files[number]
            if file.kind == 'file' and fits(len(file.now()), manifest.tags.get(number)):
                return os.path.join(lane.top(i), name)
    raise AssertionError('the writers made nothing that fits')


def lose_name(lane):
    os.unlink(first(lane, lambda size, tag: True))


def rename_to_other(lane):
    path = first(lane, lambda size, tag: True)
    os.rename(path, path + '-other')


def lose_end(lane):
    path = first(lane, lambda size, tag: size > 1)
    os.truncate(path, os.stat(path).st_size - 1)


def change_byte(lane):
    path = first(lane, lambda size, tag: size > 0)
    with open(path, 'r+b') as file:
        byte = file.read(1)
        file.seek(0)
        file.write(bytes([byte[0] ^ 1]))


def lose_tag(lane):
    os.removexattr(first(lane, lambda size, tag: tag is not None), TAG)


def lose_link(lane):
    """A copy in the place of a name of a file is another file."""
    path = first(lane, lambda size, tag: True)
    shutil.copyfile(path, path + '-copy')
    os.rename(path + '-copy', path)


def add_name(lane):
    with open(os.path.join(lane.top(0), 'extra'), 'wb'):
        pass


def none(lane):
    """Nothing is planted: nothing may be found."""


PLANTED = (lose_name, rename_to_other, lose_end, change_byte, lose_tag, lose_link, add_name, none)


def settle(lane):
    """A life, and what is left of it read into the manifests."""
    lane.mount()
    for _ in range(2):
        lane.let_write(.4)
    for manifest in lane.manifests:
        manifest.promise_all()
    lane.daemon.unmount()
    lane.mount()


def plant(directory, act):
    """What the harness says behind the act."""
    lane = Lane(directory, 1, None)
    try:
        settle(lane)
        act(lane)
        lane.compare()
    except Lost as lost:
        return str(lost)
    finally:
        lane.daemon.kill()
        lane.daemon.clear()
    return None


def old_store(directory):
    """A store as it was before the last promises, as if commits had been lost."""
    lane = Lane(directory, 2, None)
    try:
        settle(lane)
        lane.daemon.unmount()
        shutil.copytree(lane.store, lane.store + '.old')
        lane.mount()
        lane.start_writers('fsync')
        time.sleep(.5)
        lane.kill()
        shutil.rmtree(lane.store)
        os.rename(lane.store + '.old', lane.store)
        lane.mount()
    except Lost as lost:
        return str(lost)
    finally:
        lane.daemon.kill()
        lane.daemon.clear()
    return None


def liar(directory):
    """Promises without an fsync: some kill must show it, each has a second's work to lose."""
    lane = Lane(directory, 3, None)
    try:
        for _ in range(20):
            lane.mount()
            lane.start_writers('mixed', lie=True)
            time.sleep(.2)
            lane.kill()
        lane.mount()
    except Lost as lost:
        return str(lost)
    finally:
        lane.daemon.kill()
        lane.daemon.clear()
    return None


def broken(directory):
    """Damaged packs are not taken for a clean store."""
    lane = Lane(directory, 4, None)
    settle(lane)
    lane.daemon.unmount()
    with open(os.path.join(lane.store, 'packs', sorted(os.listdir(os.path.join(lane.store, 'packs')))[0]),
              'r+b') as file:
        file.seek(0, 2)
        size = file.tell()
        for at in range(200, size, 1000):
            file.seek(at)
            file.write(b'damage')
    try:
        lane.fsck('--scrub')
    except Lost as lost:
        return str(lost)
    return None


def main():
    wrong = 0
    cases = [(act.__name__, lambda path, act=act: plant(path, act)) for act in PLANTED]
    cases += [('old_store', old_store), ('liar', liar), ('broken', broken)]
    for name, case in cases:
        with tempfile.TemporaryDirectory(prefix='sepfs-kill-self-') as directory:
            found = case(directory)
        good = (found is None) == (name == 'none')
        wrong += not good
        line = 'nothing' if found is None else found.split('\n')[0]
        print(f'{name}: {line[:110]}{"" if good else " - WRONG"}', flush=True)
    return wrong


if __name__ == '__main__':
    sys.exit(main() > 0)
