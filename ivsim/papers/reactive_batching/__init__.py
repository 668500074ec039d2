"""Wu, Shang, Peng and Wolter, "A Reactive Batching Strategy of Apache Kafka" (IEEE ISSRE 2020): eighteen claims."""
