"""What is copied to tensor memory: scale factors and metadata, compared with the matrices that they belong to."""
