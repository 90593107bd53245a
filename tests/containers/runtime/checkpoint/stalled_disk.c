/* A shared disk that has stopped to answer: whoever syncs a file whose path contains $STALLED waits for ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fsync(int descriptor)
{
    char link[64], path[4096];
    const char *stalled = getenv("STALLED");
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    while (stalled && strstr(path, stalled))
        pause(); /* Python's handlers do not run meanwhile: no signal but SIGKILL ends it */
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(descriptor);
}
