internal import Base
package import Crypto
internal import JSON

/// What a provider token says, once its form and signature were found good.
package struct ProviderTokenClaims: Sendable, Equatable {
    package let keyID: String
    package let teamID: String
    /// Seconds since the UNIX epoch.
    package let issuedAt: Int64
}

/// Judges provider tokens (JWT): form, algorithm, key, team, signature and age.
///
/// A verdict on form and signature is kept by the token's text, so that a signature is verified
/// once and not for every request. Age is judged each time.
package struct ProviderTokenCheck: Sendable {
    /// Verdicts kept; the memory is emptied when it is full.
    package static let cacheLimit = 4096
    /// Longer tokens are refused unread, in bytes.
    package static let lengthLimit = 4096
    /// How far ahead of the simulator's clock `iat` may be, in seconds.
    package static let futureLimit: Int64 = 300

    package struct Rules: Sendable {
        /// The key whose signature is asked for; nil takes any signature.
        package var publicKey: P256PublicKey?
        /// The key and team identifiers asked for; nil takes any.
        package var keyID: String?
        package var teamID: String?
        /// The greatest age in seconds: Apple's is an hour.
        package var maximumAge: Int64 = 3600
        /// The least time between two changes of one connection's token in seconds; 0 for none.
        package var changeInterval = ConnectionTokens.changeInterval
        /// Only what JOSE allows: base64url without padding, R‖S, `iat` as a number of seconds.
        ///
        /// Otherwise also what APNs evidently takes: padding, the standard alphabet, DER,
        /// `iat` as text or in milliseconds.
        package var isStrict = false

        package init() {}

        /// Asks for signatures of the key whose public half stands in a PEM file.
        package mutating func usePublicKey(file path: String) throws(CryptoError) {
            publicKey = try P256PublicKey(file: path)
        }
    }

    let rules: Rules
    private var verdicts: [[UInt8]: ProviderTokenClaims?] = [:]
    /// Signatures verified so far.
    package private(set) var verifications = 0

    package init(_ rules: Rules) { self.rules = rules }

    /// The claims of a good token, or the fault.
    package mutating func judge(
        _ token: [UInt8], now: Int64
    ) -> Result<ProviderTokenClaims, ProviderTokenFault> {
        let verdict: ProviderTokenClaims?
        if let known = verdicts[token] {
            verdict = known
        } else {
            verdict = claims(of: token)
            if verdicts.count >= Self.cacheLimit { verdicts.removeAll() }
            verdicts[token] = .some(verdict)
        }
        guard let verdict else { return .failure(ProviderTokenFault(.invalidProviderToken)) }
        if let fault = ageFault(verdict, now: now) { return .failure(ProviderTokenFault(fault)) }
        return .success(verdict)
    }

    /// Judges only the age of a token whose form and signature are known to be good.
    package func ageFault(_ claims: ProviderTokenClaims, now: Int64) -> Fault? {
        if claims.issuedAt > now + Self.futureLimit { return .invalidProviderToken }
        return now - claims.issuedAt > rules.maximumAge ? .expiredProviderToken : nil
    }

    private mutating func claims(of token: [UInt8]) -> ProviderTokenClaims? {
        guard token.count <= Self.lengthLimit else { return nil }
        let parts = token.split(separator: 0x2E, omittingEmptySubsequences: false)
        guard parts.count == 3, let headerText = decode(parts[0]),
            let claimsText = decode(parts[1]),
            let signature = decode(parts[2]), let header = try? JSONValue.parse(headerText),
            let claims = try? JSONValue.parse(claimsText)
        else { return nil }
        if let type = header["typ"], type.string != "JWT" { return nil }
        guard header["alg"]?.string == "ES256", let keyID = header["kid"]?.string,
            let teamID = claims["iss"]?.string, let issuedAt = claims["iat"].flatMap(seconds)
        else { return nil }
        guard rules.keyID ?? keyID == keyID, rules.teamID ?? teamID == teamID else { return nil }
        if let key = rules.publicKey {
            verifications += 1
            let signed = Array(token[..<parts[1].endIndex])
            let holds =
                signature.count == 64
                ? key.verify(signature, of: signed)
                : !rules.isStrict && key.verify(der: signature, of: signed)
            guard holds else { return nil }
        }
        return ProviderTokenClaims(keyID: keyID, teamID: teamID, issuedAt: issuedAt)
    }

    private func decode(_ part: ArraySlice<UInt8>) -> [UInt8]? {
        if rules.isStrict, part.contains(where: { $0 == 0x3D || $0 == 0x2B || $0 == 0x2F }) {
            return nil
        }
        return Base64URL.decode(part)
    }

    private func seconds(_ value: JSONValue) -> Int64? {
        if rules.isStrict { return value.integer }
        guard let number = value.integer ?? value.string.flatMap({ Int64($0) }) else { return nil }
        return number >= 100_000_000_000 ? number / 1000 : number
    }
}

/// A fault as the error of a verdict.
package struct ProviderTokenFault: Error, Equatable {
    package let fault: Fault
    init(_ fault: Fault) { self.fault = fault }
}

/// The provider tokens one connection has used.
///
/// The first good one fixes the team and the key; a change within 20 minutes after the last one is
/// refused (429 `TooManyProviderTokenUpdates`; "Establishing a token-based connection to APNs").
package struct ConnectionTokens {
    /// The least time between two changes, in seconds.
    package static let changeInterval: Int64 = 1200

    private var current: [UInt8] = []
    private var claims: ProviderTokenClaims?
    private var changedAt: Int64 = 0

    package init() {}

    /// Judges the value of `authorization`; nil when the request may go on.
    package mutating func fault(
        in authorization: ArraySlice<UInt8>?, check: inout ProviderTokenCheck, now: Int64
    ) -> Fault? {
        guard let authorization else { return .missingProviderToken }
        guard let token = Self.bearer(authorization) else { return .missingProviderToken }
        if let claims, token == current[...] { return check.ageFault(claims, now: now) }
        let judged: ProviderTokenClaims
        switch check.judge(Array(token), now: now) {
        case .success(let claims): judged = claims
        case .failure(let failure): return failure.fault
        }
        if let claims {
            guard judged.teamID == claims.teamID else { return .invalidProviderToken }
            guard judged.keyID == claims.keyID else { return .unrelatedKeyID }
            guard now - changedAt >= check.rules.changeInterval else {
                return .tooManyProviderTokenUpdates
            }
        }
        current = Array(token)
        claims = judged
        changedAt = now
        return nil
    }

    /// What follows the scheme `bearer`, written in either case; nil when it is missing.
    static func bearer(_ value: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let scheme = value.prefix(7)
        guard scheme.count == 7, scheme.last == 0x20,
            zip(scheme, "bearer ".utf8).allSatisfy({ $0 | 0x20 == $1 })
        else { return nil }
        let token = value.dropFirst(7)
        return token.isEmpty ? nil : token
    }
}
