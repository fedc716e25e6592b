"""What all modalities share about data: known data sets, downloads, archives, arrays, labels and choices of samples."""
