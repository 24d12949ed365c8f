package cluster_test

import (
	"os"
	"testing"

	"troupe/testkit/cluster"
)

func TestMain(m *testing.M) {
	status := m.Run()
	cluster.RemoveBinaries()
	os.Exit(status)
}
