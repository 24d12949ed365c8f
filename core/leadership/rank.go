package leadership

import "hash/fnv"

// rankOf returns the position of a node among those that are up and try to acquire a deployment's
// lease. A hash of both names determines it, so that deployments spread over the nodes. up is false
// if the node is leaving.
func rankOf(node, deployment string, members []string) (rank int, up bool) {
	score := func(node string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(node + "/" + deployment)) // never fails
		return h.Sum64()
	}
	mine := score(node)
	for _, m := range members {
		up = up || m == node
		if score(m) < mine {
			rank++
		}
	}
	return rank, up
}
