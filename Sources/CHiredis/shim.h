// hiredis' command formatter and reply reader; the connection is our own.
#ifndef PEAL_CHIREDIS_H
#define PEAL_CHIREDIS_H
#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#endif
