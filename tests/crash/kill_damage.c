/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kill_damage.c - gives sepfs-fsck work in a store that nothing has open (damage.h).
 *
 *   kill_damage STORE
 *
 * Prints how many records were changed.
 */
#include <stdio.h>
#include <string.h>

#include "damage.h"

int main(int argc, char **argv)
{
    const struct index_options options = {.flags = INDEX_OPEN_NO_RECOVER};
    struct index *index;
    struct index_txn *txn;
    char text[256];
    unsigned count = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: kill_damage STORE\n");
        return 2;
    }
    int error = index_open(argv[1], &options, &index, text, sizeof text);
    if (error != 0) {
        fprintf(stderr, "kill_damage: %s: %s\n", argv[1], text);
        return 1;
    }
    error = index_begin(index, INDEX_WRITE, &txn);
    if (error == 0) {
        error = damage_plant(txn, &count);
        index_end(txn);
    }
    const int closed = index_close(index);
    error = error != 0 ? error : closed;
    if (error != 0)
        fprintf(stderr, "kill_damage: %s: %s\n", argv[1], strerror(-error));
    else
        printf("%u\n", count);
    return error != 0;
}
