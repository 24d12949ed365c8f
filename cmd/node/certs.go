package main

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"troupe/cluster/security"
)

type certsCommand struct {
	Out    string   `xor:"what" required:"" placeholder:"DIR" type:"path" help:"Make certificates in this folder, and a CA where it has none."`
	Show   string   `xor:"what" required:"" placeholder:"DIR" type:"path" help:"Show the certificates in this folder."`
	Revoke string   `xor:"what" required:"" placeholder:"DIR" type:"path" help:"Add the certificates of the given names to the file \"revoked\" in this folder, for --tls-revoked."`
	Hosts  []string `placeholder:"HOST,..." help:"Under which others reach the nodes, beside their names: names and addresses."`
	Client bool     `help:"For clients of NATS, who get no further than NATS lets them."`
	Names  []string `arg:"" optional:"" name:"NAME" help:"Nodes, or clients (default: this machine)."`
}

func (certsCommand) Help() string {
	return `Nodes trust who has a certificate of their CA. Keep ca.key where no node is; give each node ca.crt, and its own NAME.crt and NAME.key. A name
that has a certificate gets a new one, valid for a year, for the same hosts unless told otherwise: a node takes the new files without a restart.
Whoever steers the cluster with the nats command line needs a certificate too, with --client: a node's opens everything between nodes.

Examples:

  troupe certs --out certs --hosts 10.0.0.7 n1     n1 is reached at 10.0.0.7; the first call makes the CA too
  troupe certs --out certs --hosts 10.0.0.8 n2
  troupe certs --out certs --client anna           for the nats command line
  troupe certs --show certs                        who, for which hosts, until when
  troupe certs --revoke certs n2                   no node accepts the certificate of n2 any more`
}

// Run makes certificates, or shows them.
func (c certsCommand) Run(to console) error {
	if c.Show != "" {
		return c.show(to)
	}
	if c.Revoke != "" {
		return c.revoke(to)
	}
	if len(c.Names) == 0 {
		c.Names = []string{machineName()}
	}
	if err := c.check(); err != nil {
		return &usageError{err}
	}
	ca, made, err := security.OpenAuthority(c.Out)
	if err != nil {
		return err
	}
	if made {
		fmt.Fprintf(to.out, "Made a CA: %s, and ca.key beside it, which belongs on no node.\n", filepath.Join(c.Out, "ca.crt"))
	}
	for _, name := range c.Names {
		if c.Client {
			cert, err := ca.IssueClient(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(to.out, "%s is a client of NATS, until %s: %s.crt and .key\n", name, cert.NotAfter.Format(time.DateOnly), filepath.Join(c.Out, name))
			continue
		}
		cert, err := ca.Issue(name, c.hosts(name))
		if err != nil {
			return err
		}
		fmt.Fprintf(to.out, "%s is for %s, until %s: %s.crt and .key\n", name, strings.Join(security.Hosts(cert), ", "),
			cert.NotAfter.Format(time.DateOnly), filepath.Join(c.Out, name))
	}
	if c.Client {
		fmt.Fprintf(to.out, "\nUse them:\n\n  nats --tlsca %s --tlscert %s.crt --tlskey %[2]s.key\n  %[3]s top --tls-ca %[1]s --tls-cert %[2]s.crt --tls-key %[2]s.key\n",
			filepath.Join(c.Out, "ca.crt"), filepath.Join(c.Out, c.Names[0]), os.Args[0])
		return nil
	}
	fmt.Fprintf(to.out, "\nStart a node with them:\n\n  %s up --tls-ca %s --tls-cert %s.crt --tls-key %[3]s.key\n",
		os.Args[0], filepath.Join(c.Out, "ca.crt"), filepath.Join(c.Out, c.Names[0]))
	return nil
}

func (c certsCommand) check() error {
	for _, name := range c.Names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if c.Client && len(c.Hosts) > 0 {
		return fmt.Errorf("--client and --hosts exclude each other: nobody dials a client")
	}
	for _, host := range c.Hosts {
		if err := checkHost(host); err != nil {
			return fmt.Errorf("--hosts: %w", err)
		}
	}
	return nil
}

// hosts are those of a node: what was given, its name, and this machine for who tries it out. None: as they were.
func (c certsCommand) hosts(name string) []string {
	if _, err := os.Stat(filepath.Join(c.Out, name+".crt")); err == nil && len(c.Hosts) == 0 {
		return nil
	}
	return append(append([]string{name}, c.Hosts...), "localhost", "127.0.0.1", "::1")
}

// revoke lists the certificates of names as revoked.
func (c certsCommand) revoke(to console) error {
	if len(c.Names) == 0 || len(c.Hosts) > 0 || c.Client {
		return &usageError{fmt.Errorf("--revoke takes a folder and the names whose certificates are revoked, and nothing else")}
	}
	if err := c.check(); err != nil {
		return &usageError{err}
	}
	for _, name := range c.Names {
		file, known, err := security.Revoke(c.Revoke, name)
		if err != nil {
			return err
		}
		if known {
			fmt.Fprintf(to.out, "%s was revoked before: %s\n", name, file)
			continue
		}
		fmt.Fprintf(to.out, "%s is revoked: %s\n", name, file)
	}
	fmt.Fprintf(to.out, "\nCopy the file to every node, where --tls-revoked names it: running nodes close the connections of these certificates within seconds.\n")
	return nil
}

func (c certsCommand) show(to console) error {
	if len(c.Hosts)+len(c.Names) > 0 {
		return &usageError{fmt.Errorf("--show takes a folder and nothing else; to make certificates, use --out")}
	}
	all, err := security.Show(c.Show)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(to.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tUNTIL\tHOSTS")
	for _, cert := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\n", cert.Subject.CommonName, expiry(cert), cmp.Or(strings.Join(security.Hosts(cert), ", "), purpose(cert)))
	}
	return table.Flush()
}

// use is what a certificate without hosts is for.
func purpose(cert *x509.Certificate) string {
	if cert.IsCA {
		return ""
	}
	return "a client of NATS"
}

func expiry(cert *x509.Certificate) string {
	day := cert.NotAfter.Format(time.DateOnly)
	if time.Now().After(cert.NotAfter) {
		return day + " (expired)"
	}
	return day
}
