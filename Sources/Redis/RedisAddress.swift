/// Where Redis is and how to sign in there.
///
/// | form | what it names |
/// | --- | --- |
/// | `redis://[user:password@]host[:port][/database]` | a server |
/// | `rediss://…` | a server behind TLS |
/// | `redis+sentinel://[user:password@]host[:port],…/master-name[/database]` | the master of that
///   name, found through its Sentinels |
/// | `rediss+sentinel://…` | the same, Sentinels and master behind TLS |
///
/// The Sentinel forms take `?sentinel_user=…&sentinel_password=…` where the Sentinels have other
/// credentials than the master. User, password and these values are percent-decoded.
package struct RedisAddress: Sendable, Equatable, CustomStringConvertible {
    /// A host and port.
    package struct Endpoint: Sendable, Hashable, CustomStringConvertible {
        package var host: String
        package var port: Int

        package init(host: String, port: Int) {
            self.host = host
            self.port = port
        }

        package var description: String {
            host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        }
    }

    /// What to connect to.
    package enum Place: Sendable, Equatable {
        case server(Endpoint)
        /// The master of this name, whichever server that is at the moment of connecting.
        case sentinels([Endpoint], master: String)
    }

    package struct Credentials: Sendable, Equatable {
        package var user: String?
        package var password: String

        package init(user: String?, password: String) {
            self.user = user
            self.password = password
        }
    }

    /// PEM files for TLS.
    package struct Files: Sendable, Equatable {
        /// The authority of the server's certificate; nil for the system's roots.
        package var authority: String?
        /// A certificate chain to show to the server, with its key.
        package var certificate: String?
        package var key: String?

        package init(authority: String? = nil, certificate: String? = nil, key: String? = nil) {
            self.authority = authority
            self.certificate = certificate
            self.key = key
        }
    }

    package var place: Place
    package var user: String?
    package var password: String?
    package var database: Int
    /// Nil where the Sentinels ask for none or for the same as the master.
    package var sentinelCredentials: Credentials?
    /// Servers and Sentinels are behind TLS.
    package var isEncrypted = false
    package var files = Files()

    package init(
        host: String, port: Int, user: String? = nil, password: String? = nil, database: Int = 0
    ) {
        self.init(
            place: .server(Endpoint(host: host, port: port)), user: user, password: password,
            database: database)
    }

    package init(
        place: Place, user: String? = nil, password: String? = nil, database: Int = 0
    ) {
        self.place = place
        self.user = user
        self.password = password
        self.database = database
    }

    /// The user and password for Redis itself.
    var credentials: Credentials? { password.map { Credentials(user: user, password: $0) } }

    /// Hosts, ports and the master's name, never a password.
    package var description: String {
        switch place {
        case .server(let endpoint): endpoint.description
        case .sentinels(let sentinels, let master):
            "\(master) of \(sentinels.map(\.description).joined(separator: ","))"
        }
    }
}
