/* Reserves the arena of a plan, as firmware does, and prints its size. */
#include "model.h"

#include <stdio.h>

static unsigned char arena[MEMC_ARENA_DEVICE_SIZE];

int main(void)
{
    printf("%lu bytes for %d inputs\n", (unsigned long)sizeof arena, MEMC_INPUT_COUNT);
    return arena[0];
}
