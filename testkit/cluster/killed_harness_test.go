package cluster_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"troupe/testkit/cluster"
)

// harnessEnv is the environment variable that makes this binary a harness: it starts a node, prints
// its process ID and waits to be killed.
const harnessEnv = "TROUPE_TEST_HARNESS"

// TestKilledHarnessLeavesNoNode checks that the nodes of a killed harness end too.
func TestKilledHarnessLeavesNoNode(t *testing.T) {
	if os.Getenv(harnessEnv) != "" {
		c := cluster.Up(t, cluster.Config{Nodes: 1, Isolated: cluster.CheckFabric() == nil})
		fmt.Println(c.Nodes[0].Process().PID())
		<-t.Context().Done()
	}
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	self.Env = append(os.Environ(), harnessEnv+"=1", cluster.BinariesEnv(), "TMPDIR="+t.TempDir())
	out, err := self.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(line[:len(line)-1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("no node: %v", err)
	}
	if err := self.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = self.Wait() // it was killed
	if err := cluster.Until(cluster.TestContext(t, time.Minute), func() error {
		if syscall.Kill(pid, 0) == nil {
			return fmt.Errorf("the node of a killed harness is alive, process %d", pid)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
