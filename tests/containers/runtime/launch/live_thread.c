/* A library with a thread that lives as long as its process. Where the process exits under such a thread, C++
   aborts it: ~thread() of one that can be joined calls std::terminate. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *live(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, live, NULL))
        abort();
}

__attribute__((destructor)) static void end(void)
{
    fputs("terminate called without an active exception\n", stderr);
    abort();
}
