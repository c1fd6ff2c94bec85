#ifndef PEAL_CNGHTTP2_H
#define PEAL_CNGHTTP2_H
#include <nghttp2/nghttp2.h>
#endif
