# SPDX-License-Identifier: BSD-2-Clause
"""The daemon's memory: 256 MiB and the configured caches, whatever the load."""
import os
import threading

import sepfs_test
from sepfs_test import BLOCK, data_of, run


class Memory(sepfs_test.MountTest):
    def peak(self):
        with open(f'/proc/{self.m.pid}/status', encoding='utf-8') as lines:
            for line in lines:
                if line.startswith('VmHWM:'):
                    return int(line.split()[1]) << 10
        raise AssertionError('no VmHWM')

    def test_ceiling(self):
        self.mount('cache=32M,dirty=16M')
        piece = data_of(1, 8 << 20)

        def writer(me):
            with open(self.path(f'big{me}'), 'wb') as file:
                for number in range(20):
                    file.write(number.to_bytes(8, 'little') + piece)
            with open(self.path(f'big{me}'), 'rb') as file:
                while file.read(1 << 20):
                    pass
        threads = [threading.Thread(target=writer, args=(me,)) for me in range(3)]
        for thread in threads:
            thread.start()
        os.mkdir(self.path('d'))
        for number in range(20000):
            with open(self.path('d', str(number)), 'wb') as file:
                file.write(b'%d' % number)
        for thread in threads:
            thread.join()
        names = os.listdir(self.path('d'))
        self.assertEqual(len(names), 20000)
        run('find', self.mp, '-ls')
        self.assertLess(self.peak(), (256 + 32 + 16) << 20)

    def test_many_open_files_with_unwritten_data(self):
        self.mount('dirty=8M')
        files = [open(self.path(str(number)), 'wb', buffering=0) for number in range(400)]
        for offset in range(3):
            for file in files:
                file.seek(offset * BLOCK)
                file.write(os.urandom(1000))
        for file in files:
            file.close()
        self.assertLess(self.peak(), (256 + 128 + 8) << 20)


if __name__ == '__main__':
    sepfs_test.main()
