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
/// 1 when `text` is an IPv4 or IPv6 address.
static inline int peal_is_address(const char *text) {
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(text);
    int yes = address != NULL;
    ASN1_OCTET_STRING_free(address);
    ERR_clear_error();
    return yes;
}
/// Adds an extension in OpenSSL's configuration syntax; 1 when it worked.
static inline int peal_add_extension(X509 *certificate, X509 *issuer, int nid, const char *value) {
    ERR_clear_error();
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    if (extension == NULL) return 0;
    int added = X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return added;
}
static inline long peal_mem_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }
#endif
