package import APNs
internal import Base
package import Campaign
internal import Crypto
internal import JSON

extension AppProfiles {
    /// A key file that cannot be used, and for which app.
    package struct CredentialFailure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Reads the key of every app.
    package func credentials() throws(CredentialFailure) -> [String: ProviderCredential] {
        var result: [String: ProviderCredential] = [:]
        for name in names {
            guard let profile = self[name] else { continue }
            let place = "$.apps.\(name).key_file"
            let key: P256PrivateKey
            do {
                key = try P256PrivateKey(file: profile.keyFile)
            } catch {
                throw CredentialFailure(
                    description: "\(place): \(error); name the .p8 file that Apple's developer "
                        + "account gave for the key \(profile.keyID)")
            }
            guard
                let credential = ProviderCredential(
                    key: key, keyID: profile.keyID, teamID: profile.teamID)
            else {
                throw CredentialFailure(
                    description: "$.apps.\(name): key_id and team_id have ten letters and digits")
            }
            result[name] = credential
        }
        return result
    }

    /// What is wrong with a job in view of these apps.
    package func faults(of job: Job) -> [JobFault] {
        guard let profile = self[job.app] else { return faults(ofApp: job.app) }
        return job.fault(profileEnvironment: profile.environment).map { [$0] } ?? []
    }

    /// The fault of a job whose app is not in the apps file.
    package func faults(ofApp name: String?) -> [JobFault] {
        guard let name, self[name] == nil else { return [] }
        let hint = Nearest.hint(for: name, among: names)
        let message = "\"\(name)\" is not in the apps file\(hint); add it there"
        return [JobFault(path: "$.app", message: message)]
    }
}
