// What `import Glibc` hides: epoll, eventfd and the fields of socket addresses.
#ifndef PEAL_CLINUX_H
#define PEAL_CLINUX_H
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/// The file descriptor of an epoll event (the C union is awkward in Swift).
static inline int peal_epoll_data(const struct epoll_event *event) { return (int)event->data.u64; }

/// Adds, changes or removes a descriptor; 0 or the negative error number.
static inline int peal_epoll_ctl(int epoll, int op, int fd, uint32_t events) {
    struct epoll_event event = {0};
    event.events = events;
    event.data.u64 = (uint64_t)fd;
    return epoll_ctl(epoll, op, fd, &event) == 0 ? 0 : -errno;
}
/// Accepts one connection; accept4 hides behind _GNU_SOURCE.
static inline int peal_accept(int listener, int flags) {
    int fd = accept(listener, 0, 0);
    if (fd < 0) return fd;
    if (flags & SOCK_NONBLOCK) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL, 0) | O_NONBLOCK);
    if (flags & SOCK_CLOEXEC) fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}
#endif
