package gpucheck

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"troupe/cuda"
	"troupe/cuda/driver"
	"troupe/cuda/host"
	"troupe/testkit"
)

var (
	model    = flag.String("model", "", "folder of the model (default: the shipped model)")
	products = flag.String(
		"products", driver.AnyBLAS, "GEMM backend: auto, off, or the path of a cuBLAS library",
	)
	results = flag.String("results", "", "file for the results (default: none)")
)

// report is the content of the results file. Tests of this package run one after the other.
var report strings.Builder

func TestMain(m *testing.M) {
	flag.Parse()
	if *model == "" {
		*model = testkit.Model()
	}
	fmt.Fprintf(&report, "# GPU check\n\n%s\n\n", deviceDescription())
	code := m.Run()
	outcome := "All checks passed."
	if code != 0 {
		outcome = "SOME CHECKS FAILED; see the log beside this file."
	}
	fmt.Fprintf(&report, "\n%s\n", outcome)
	if *results != "" {
		if err := os.WriteFile(*results, []byte(report.String()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// deviceDescription describes the device of the results.
func deviceDescription() string {
	machine := fmt.Sprintf("Built with %s for %s/%s.", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	found, why, err := driver.Probe()
	switch {
	case err != nil:
		return fmt.Sprintf(
			"**The driver of this machine does not work: %v.** The figures are of the software device, not of a "+
				"GPU. %s",
			err, machine,
		)
	case len(found) == 0:
		return fmt.Sprintf("**No GPU: %s.** The figures are of the software device, not of a GPU. %s", why, machine)
	case found[0].Simulated:
		return fmt.Sprintf(
			"**A fake driver, not NVIDIA's: %s.** The figures are not of a GPU. %s", found[0].Name, machine,
		)
	}
	return fmt.Sprintf("On %s, %d MiB, %s. %s", found[0].Name, found[0].MemoryBytes>>20, found[0].UUID, machine)
}

// open opens the first GPU, or the software device if there is none.
func open(t *testing.T) cuda.Device {
	t.Helper()
	return openAt(t, 0, *products)
}

// openAt opens a GPU by its index, or a software device.
func openAt(t *testing.T, index int, products string) cuda.Device {
	t.Helper()
	found, _, err := driver.Probe()
	if err != nil {
		t.Error(err)
	}
	var d cuda.Device
	if len(found) > 0 {
		d, err = driver.Open(index, products)
	} else {
		d, err = host.Open(host.Config{Index: index, MemoryBytes: 2 << 30})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// gemmBackends returns the GEMM backends of the device: the flag's value by the backend's name.
func gemmBackends(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, value := range []string{driver.NoBLAS, *products} {
		d := openAt(t, 0, value)
		if p, err := cuda.As[cuda.Describer](d); err == nil {
			name, _, _ := strings.Cut(cmp.Or(p.Properties().GEMMBackend, "the software device"), ": ")
			all[name] = value
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	return all
}

// row appends a line to the report.
func row(t *testing.T, format string, values ...any) {
	t.Helper()
	line := fmt.Sprintf(format, values...)
	t.Log(line)
	report.WriteString(line + "\n")
}
