"""Files of data: where they are kept, how they are fetched and unpacked, and what is wrong with them."""
