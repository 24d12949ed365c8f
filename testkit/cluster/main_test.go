package cluster_test

import (
	"os"
	"testing"

	"troupe/testkit/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
