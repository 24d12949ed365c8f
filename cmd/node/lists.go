package main

import "strings"

// splitList are the parts of a list of splitList. A list of commas alone is no list: it would allow every folder.
func splitList(list string) (all []string) {
	for one := range strings.SplitSeq(list, ",") {
		if one != "" {
			all = append(all, one)
		}
	}
	return all
}

// absoluteList makes each folder of a list start at base.
func absoluteList(base, list string) string {
	all := splitList(list)
	for i := range all {
		all[i] = absolute(base, all[i])
	}
	return strings.Join(all, ",")
}
