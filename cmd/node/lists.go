package main

import "strings"

// folders are the parts of a list of folders. A list of commas alone is no list: it would allow every folder.
func folders(list string) (all []string) {
	for one := range strings.SplitSeq(list, ",") {
		if one != "" {
			all = append(all, one)
		}
	}
	return all
}

// absoluteList makes each folder of a list start at base.
func absoluteList(base, list string) string {
	all := folders(list)
	for i := range all {
		all[i] = absolute(base, all[i])
	}
	return strings.Join(all, ",")
}
