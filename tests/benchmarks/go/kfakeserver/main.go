// Serve franz-go's kfake until standard input ends; the first line written is its address.
// Every line read is answered with the bytes of the live heap after a collection.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.GroupMinSessionTimeout(0),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	}
	for _, topic := range os.Args[1:] {
		options = append(options, kfake.SeedTopics(100, topic))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		fmt.Println(memory.HeapAlloc)
	}
}
