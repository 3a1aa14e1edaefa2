// Command etcd is etcd itself: upstream ships its main in a module of its own that cannot be imported.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
