internal import Base
package import Crypto

/// A signed provider token (JWT), good for every connection of one developer team.
///
/// Never log `text`: whoever has it can push for an hour.
package struct ProviderToken: Sendable, Equatable {
    /// The three parts with dots between them, as it stands after `bearer `.
    package let text: String
    /// Its `iat` claim: seconds since the UNIX epoch.
    package let issuedAt: Int64

    package init(text: String, issuedAt: Int64) {
        self.text = text
        self.issuedAt = issuedAt
    }

    /// Seconds since it was signed; negative when the clock went backwards since.
    package func age(at now: Int64) -> Int64 { now - issuedAt }
}

/// The private key of a team with the two identifiers that Apple gave for it.
package struct ProviderCredential: Sendable {
    package let keyID: String
    package let teamID: String
    private let key: P256PrivateKey
    private let header: String

    /// Nil when an identifier does not have ten letters and digits.
    ///
    /// - Parameters:
    ///   - key: the private key of the .p8 file.
    ///   - keyID: the key's identifier.
    ///   - teamID: the developer team's identifier.
    package init?(key: P256PrivateKey, keyID: String, teamID: String) {
        guard ProviderCredential.isIdentifier(keyID), ProviderCredential.isIdentifier(teamID)
        else { return nil }
        self.key = key
        self.keyID = keyID
        self.teamID = teamID
        header = Base64URL.encode(Array(#"{"alg":"ES256","kid":"\#(keyID)"}"#.utf8))
    }

    /// Whether `text` has the form of a key or team identifier: ten ASCII letters and digits.
    package static func isIdentifier(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                default: false
                }
            }
    }

    /// Signs a token (RFC 7515, ES256 of RFC 7518; "Establishing a token-based connection to
    /// APNs").
    ///
    /// - Parameter now: seconds since the UNIX epoch, the token's `iat`.
    /// - Returns: the signed token.
    package func token(issuedAt now: Int64) -> ProviderToken {
        let claims = Base64URL.encode(Array(#"{"iss":"\#(teamID)","iat":\#(now)}"#.utf8))
        let signed = header + "." + claims
        let signature = Base64URL.encode(key.sign(Array(signed.utf8)))
        return ProviderToken(text: signed + "." + signature, issuedAt: now)
    }
}

/// When a provider token is signed anew and when a connection changes over to another one.
///
/// Apple refuses a token older than 60 minutes and one that changes more often than every
/// 20 minutes on a connection. All times are seconds since the UNIX epoch.
///
/// | token's age | connection's last change | a new connection | an open connection |
/// | --- | --- | --- | --- |
/// | 0 min | 0 min | takes it | keeps it |
/// | 29 min 59 s | 29 min 59 s | takes it | keeps it |
/// | 30 min | 30 min | asks for a new one | keeps it |
/// | 49 min 59 s | 49 min 59 s | asks for a new one | keeps it |
/// | 50 min | 50 min | asks for a new one | changes |
/// | 50 min | 19 min 59 s | asks for a new one | keeps it |
/// | 50 min | 20 min | asks for a new one | changes |
/// | −1 min | 0 min | takes it | keeps it |
/// | −6 min (the clock was set back) | 20 min | asks for a new one | changes |
package enum ProviderTokenPolicy {
    /// An open connection changes its token at this age: 50 minutes.
    package static let refreshAge: Int64 = 50 * 60
    /// A new connection takes a token only below this age, so that it need not change soon: 30
    /// minutes.
    package static let adoptionAge: Int64 = 30 * 60
    /// The least time between two changes on one connection and between two signatures: 20 minutes.
    package static let changeInterval: Int64 = 20 * 60
    /// A token further in the future than this comes from a clock that was wrong: 5 minutes.
    package static let futureLimit: Int64 = 5 * 60

    /// Whether a connection that is being opened may take a token of this age.
    package static func mayAdopt(age: Int64) -> Bool { age < adoptionAge && age >= -futureLimit }

    /// Whether an open connection should change a token of this age.
    package static func shouldChange(age: Int64, sinceChange: Int64) -> Bool {
        (age >= refreshAge || age < -futureLimit) && sinceChange >= changeInterval
    }
}

/// The one token that all connections of a credential share, and its renewal; no clock inside.
///
/// It never signs twice within 20 minutes, whatever it is asked.
package struct ProviderTokenSource: Sendable {
    package let credential: ProviderCredential
    /// The newest token, to be shared with other workers.
    package private(set) var current: ProviderToken?
    /// Tokens signed here so far.
    package private(set) var signatures = 0
    private var signedAt: Int64?

    package init(credential: ProviderCredential) { self.credential = credential }

    /// The token for a connection that is being opened.
    package mutating func tokenForNewConnection(at now: Int64) -> ProviderToken {
        if let current, ProviderTokenPolicy.mayAdopt(age: current.age(at: now)) { return current }
        return renewed(at: now)
    }

    /// The token an open connection should change to, or nil to keep what it has.
    ///
    /// - Parameters:
    ///   - held: what the connection uses now.
    ///   - changedAt: when it began to use that.
    ///   - now: the present time.
    /// - Returns: another token than `held`, or nil.
    package mutating func replacement(
        for held: ProviderToken, changedAt: Int64, at now: Int64
    ) -> ProviderToken? {
        guard
            ProviderTokenPolicy.shouldChange(
                age: held.age(at: now), sinceChange: now - changedAt)
        else { return nil }
        let token = tokenForNewConnection(at: now)
        return token == held ? nil : token
    }

    /// The token to go on with after APNs refused `refused` (403 `ExpiredProviderToken` and the
    /// like).
    ///
    /// Nil when the newest token is the refused one and younger than 20 minutes: signing again
    /// would
    /// not help, the clock or the key is wrong.
    package mutating func tokenAfterRefusal(
        of refused: ProviderToken, at now: Int64
    ) -> ProviderToken? {
        if let current, current != refused, ProviderTokenPolicy.mayAdopt(age: current.age(at: now))
        {
            return current
        }
        let token = renewed(at: now)
        return token == refused ? nil : token
    }

    /// Takes over a token that another worker signed, if it is newer than the present one.
    package mutating func adopt(_ token: ProviderToken) {
        if let current, current.issuedAt >= token.issuedAt { return }
        current = token
    }

    /// APNs saw too many tokens: signs none for 20 minutes, as if one had been signed now.
    package mutating func hold(at now: Int64) { signedAt = now }

    /// Signs a token unless that happened less than 20 minutes ago.
    private mutating func renewed(at now: Int64) -> ProviderToken {
        if let current, let signedAt,
            (now - signedAt).magnitude < ProviderTokenPolicy.changeInterval
        {
            return current
        }
        let token = credential.token(issuedAt: now)
        current = token
        signedAt = now
        signatures += 1
        return token
    }
}
