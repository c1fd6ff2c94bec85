// OpenSSL 3 and inline functions for its macros, which Swift cannot call.
#ifndef PEAL_COPENSSL_H
#define PEAL_COPENSSL_H
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

static inline void peal_bio_clear_retry(BIO *bio) { BIO_clear_retry_flags(bio); }
static inline void peal_bio_set_retry_read(BIO *bio) { BIO_set_retry_read(bio); }
static inline int peal_ssl_set_host_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}
static inline int peal_ctx_set_minimum_tls12(SSL_CTX *context) {
    return (int)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
}
static inline EVP_PKEY *peal_generate_p256(void) { return EVP_EC_gen("P-256"); }
static inline long peal_mem_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }
#endif
