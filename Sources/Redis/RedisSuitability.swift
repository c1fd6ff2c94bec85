extension RedisConnection {
    /// Throws an `unsuitable` error when this Redis must not keep Peal's data under `namespace`.
    ///
    /// 1. It may evict keys, unless `allowsEviction`.
    /// 2. It is a cluster and the namespace has no hash tag that keeps the keys in one slot.
    ///
    /// Only INFO is needed for it, no right to CONFIG, which managed services often refuse.
    package func requireSuitable(namespace: String, allowsEviction: Bool) throws(RedisError) {
        let memory = RedisInfo(try command("INFO", "memory"))
        if !allowsEviction, let policy = memory["maxmemory_policy"], policy != "noeviction" {
            throw RedisError(
                .unsuitable,
                "Redis at \(address) has the maxmemory-policy \(policy): it may delete ledgers, "
                    + "and an account would not add up; set it to noeviction, or start with "
                    + "--allow-eviction at your own risk")
        }
        let cluster = RedisInfo(try command("INFO", "cluster"))
        if cluster["cluster_enabled"] == "1", !RedisConnection.hasHashTag(namespace) {
            throw RedisError(
                .unsuitable,
                "Redis at \(address) is a cluster: the namespace \(namespace) needs a hash tag, "
                    + "so that all its keys share a slot; write --namespace {\(namespace)}")
        }
    }

    /// Whether Redis Cluster hashes a part in braces instead of the whole key: the text between the
    /// first `{` and the next `}`, unless it is empty.
    static func hasHashTag(_ name: String) -> Bool {
        guard let open = name.firstIndex(of: "{") else { return false }
        let tail = name[name.index(after: open)...]
        return (tail.firstIndex(of: "}").map { $0 > tail.startIndex }) ?? false
    }
}
