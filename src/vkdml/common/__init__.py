"""What all other folders use and none of them owns."""
