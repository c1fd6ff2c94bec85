internal import COpenSSL

/// The digest SHA-256 (FIPS 180-4).
package enum SHA256 {
    /// The 32 bytes of the digest of `bytes`.
    package static func hash(_ bytes: [UInt8]) -> [UInt8] {
        ERR_clear_error()
        var digest = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        let done = EVP_Digest(bytes, bytes.count, &digest, &length, EVP_sha256(), nil)
        precondition(done == 1 && length == 32, "OpenSSL could not compute SHA-256")
        return digest
    }
}

/// Random bytes that nobody can guess, from OpenSSL's generator.
package enum SecureRandom {
    /// `count` random bytes.
    package static func bytes(_ count: Int) -> [UInt8] {
        precondition(
            count >= 0 && count <= 1 << 20, "ask for at most 1 MiB of random bytes at once")
        guard count > 0 else { return [] }
        ERR_clear_error()
        var bytes = [UInt8](repeating: 0, count: count)
        precondition(
            RAND_bytes(&bytes, Int32(count)) == 1, "the system has no source of random bytes")
        return bytes
    }

    /// 64 random bits.
    package static func word() -> UInt64 {
        bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
