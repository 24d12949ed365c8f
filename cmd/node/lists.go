package main

import "strings"

// splitList splits a comma-separated list of paths and drops empty elements. A list of commas alone is
// empty, which the caller must refuse: no folder means that every folder is allowed.
func splitList(list string) (all []string) {
	for one := range strings.SplitSeq(list, ",") {
		if one != "" {
			all = append(all, one)
		}
	}
	return all
}

// absoluteList resolves each relative path of a list against base.
func absoluteList(base, list string) string {
	all := splitList(list)
	for i := range all {
		all[i] = absolute(base, all[i])
	}
	return strings.Join(all, ",")
}
