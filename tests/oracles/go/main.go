// Checks a checkpoint and an inclusion proof with Go's own transparency log code (golang.org/x/mod/sumdb).
//
//	oracle VKEY CHECKPOINT LEAF PROOF
//
// answers "included INDEX SIZE", or says on stderr what does not verify.
package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	if len(os.Args) != 5 {
		fail(fmt.Errorf("usage: oracle VKEY CHECKPOINT LEAF PROOF"))
	}
	verifier, err := note.NewVerifier(os.Args[1])
	fail(err)
	checkpoint := read(os.Args[2])
	signed, err := note.Open(checkpoint, note.VerifierList(verifier))
	fail(err)
	origin, size, root := parse(signed.Text)
	if origin != verifier.Name() || len(signed.Sigs) != 1 {
		fail(fmt.Errorf("a checkpoint of another origin"))
	}
	index, path := proof(string(read(os.Args[4])), string(checkpoint))
	fail(tlog.CheckRecord(path, size, root, index, tlog.RecordHash(read(os.Args[3]))))
	fmt.Println("included", index, size)
}

func parse(text string) (string, int64, tlog.Hash) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		fail(fmt.Errorf("not a checkpoint"))
	}
	return lines[0], number(lines[1]), hash(lines[2])
}

func proof(text string, checkpoint string) (int64, tlog.RecordProof) {
	head, tail, found := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	if !found || tail != checkpoint || len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" {
		fail(fmt.Errorf("not a proof under this checkpoint"))
	}
	var path tlog.RecordProof
	for _, line := range lines[2:] {
		path = append(path, hash(line))
	}
	return number(strings.TrimPrefix(lines[1], "index ")), path
}

func number(text string) int64 {
	found, err := strconv.ParseInt(text, 10, 64)
	fail(err)
	return found
}

func hash(text string) tlog.Hash {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	fail(err)
	if len(data) != tlog.HashSize {
		fail(fmt.Errorf("not a hash"))
	}
	var found tlog.Hash
	copy(found[:], data)
	return found
}

func read(path string) []byte {
	data, err := os.ReadFile(path)
	fail(err)
	return data
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
